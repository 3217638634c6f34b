// Keeps one object per element of a Streamlit component, from one update of the data to the next.

/**
 * @template D
 * @typedef {{
 *   generation: number, setState: ((name: string, value: unknown) => void) | null,
 *   take: (data: D) => void, close: () => void,
 * }} Mounted
 */

/**
 * Pass new data to the element's object, which the first call creates; return the cleanup. A cleanup
 * may run late, after the next call has begun: only the newest cleanup may close the object, and
 * only after the element was removed from the page.
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
  return () =>
    setTimeout(() => {
      if (mounted.generation !== generation || parentElement.isConnected) return;
      places.delete(parentElement);
      mounted.close();
    });
}
