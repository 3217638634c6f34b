// Formatting of shares, percentages and times.

/** A share with a fixed number of digits. @param {number|null|undefined} value @param {number} [digits] */
export function share(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits);
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

/** A probability in percent, never rounded up to 100. @param {number} value */
export function likelihood(value) {
  if (value <= 0.995 || value >= 1) return percent(value);
  return `${(Math.floor(1000 * value) / 10).toFixed(1)} %`;
}

/** A value above 0 is never written as 0. @param {number} value @param {number} digits */
function shareAbove0(value, digits) {
  const text = share(value, digits);
  return value > 0 && Number(text) === 0 ? `<\u00a0${share(10 ** -digits, digits)}` : text;
}

/**
 * Two numbers in [0, 1] with enough digits to distinguish them from each other and from 1.
 * @param {number} one @param {number} other
 */
export function distinguish(one, other) {
  /** @param {number} digits */
  const blurred = (digits) => {
    const [first, second] = [share(one, digits), share(other, digits)];
    const certain = (one < 1 && Number(first) === 1) || (other < 1 && Number(second) === 1);
    return certain || (one !== other && first === second);
  };
  let digits = 2;
  while (digits < 8 && blurred(digits)) digits += 1;
  return [shareAbove0(one, digits), shareAbove0(other, digits)];
}

/** The unit for all times of one clock. @param {number} longest seconds @returns {"s"|"ms"} */
export function unitFor(longest) {
  return longest < 1 ? "ms" : "s";
}

/** The seconds as displayed, so that values computed from them agree with the display. @param {number} seconds @param {"s"|"ms"} unit */
export function asWritten(seconds, unit) {
  return parseFloat(timeIn(seconds, unit)) / (unit === "ms" ? 1000 : 1);
}

/** @param {number} seconds @param {"s"|"ms"} unit */
export function timeIn(seconds, unit) {
  return unit === "ms" ? milliseconds(seconds) : `${seconds.toFixed(2)}\u00a0s`;
}
