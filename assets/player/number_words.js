// These functions write numbers as people do: shares, percentages and times.

/** @param {number|null|undefined} value @param {number} [digits] .86 rather than 0.86 */
export function share(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits).replace(/^(-?)0\./, "$1.");
}

/** @param {number} value */
export function percent(value) {
  const hundred = 100 * value;
  if (hundred > 0 && hundred < 0.1) return "<\u00a00.1\u00a0%";
  return `${hundred.toFixed(hundred < 10 && hundred > 0 ? 1 : 0)}\u00a0%`;
}

/** @param {number} seconds */
export function milliseconds(seconds) {
  const ms = 1000 * seconds;
  return `${ms.toFixed(ms < 10 ? 1 : 0)}\u00a0ms`;
}

/** A probability in per cent; never rounded up to certainty. @param {number} value */
export function likelihood(value) {
  if (value <= 0.995 || value >= 1) return percent(value);
  return `${(Math.floor(1000 * value) / 10).toFixed(1)} %`;
}

/**
 * Two numbers in [0, 1] with as many digits as it takes to tell them apart, and from 1.
 * @param {number} one @param {number} other
 */
export function toldApart(one, other) {
  /** @param {number} digits */
  const blurred = (digits) => {
    const [first, second] = [share(one, digits), share(other, digits)];
    const certain = (one < 1 && Number(first) === 1) || (other < 1 && Number(second) === 1);
    return certain || (one !== other && first === second);
  };
  let digits = 2;
  while (digits < 8 && blurred(digits)) digits += 1;
  return [share(one, digits), share(other, digits)];
}

/** One unit for all times of a clock. @param {number} longest seconds @returns {"s"|"ms"} */
export function unitFor(longest) {
  return longest < 1 ? "ms" : "s";
}

/** @param {number} seconds @param {"s"|"ms"} unit */
export function timeIn(seconds, unit) {
  return unit === "ms" ? milliseconds(seconds) : `${seconds.toFixed(2)}\u00a0s`;
}
