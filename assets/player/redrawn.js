// A Streamlit component that is drawn anew whenever its data changes.

/**
 * @template D
 * @param {(data: D) => HTMLElement} drawn
 * @returns {(given: {data: D, parentElement: HTMLElement}) => () => void}
 */
export function redrawnFrom(drawn) {
  /** @type {WeakMap<HTMLElement, {element: HTMLElement, id: string}>} */
  const places = new WeakMap();
  return ({ data, parentElement }) => {
    const there = places.get(parentElement);
    const id = JSON.stringify(data);
    if (there?.id !== id) {
      const element = drawn(data);
      there?.element.remove();
      parentElement.append(element);
      places.set(parentElement, { element, id });
    }
    return () => {};
  };
}
