// Keeps one object per element of a Streamlit component, from one update of the data to the next.

/**
 * @template D
 * @typedef {{
 *   generation: number, setState: ((name: string, value: unknown) => void) | null,
 *   take: (data: D) => void, close: () => void,
 * }} Mounted
 */

const LOOK_AGAIN = 100; // milliseconds

/**
 * Close an element's object once the element was removed from the page, unless the element is used
 * again. A cleanup does not show that: Streamlit may call it after it has passed new data to the
 * element, or before it removes the element.
 * @param {HTMLElement} parent @param {() => boolean} isUnused @param {() => void} close
 * @param {number} [wait] in milliseconds
 */
export function closeRemoved(parent, isUnused, close, wait = 0) {
  setTimeout(() => {
    if (!isUnused()) return;
    if (parent.isConnected) closeRemoved(parent, isUnused, close, LOOK_AGAIN);
    else close();
  }, wait);
}

/**
 * Pass new data to the element's object, which the first call creates; return the cleanup.
 * @template D
 * @param {WeakMap<HTMLElement, Mounted<D>>} places
 * @param {(parent: HTMLElement) => Mounted<D>} create
 * @param {{data: D, parentElement: HTMLElement, setStateValue: (name: string, value: unknown) => void}} given
 */
export function mount(places, create, { data, parentElement, setStateValue }) {
  const mounted = places.get(parentElement) ?? create(parentElement);
  places.set(parentElement, mounted);
  const generation = ++mounted.generation;
  mounted.setState = setStateValue;
  mounted.take(data);
  const close = () => {
    places.delete(parentElement);
    mounted.close();
  };
  return () => closeRemoved(parentElement, () => mounted.generation === generation, close);
}
