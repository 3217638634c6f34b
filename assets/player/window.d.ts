// Values that the player's scripts share through the window.

export {};

declare global {
  interface Window {
    /** The first view before the page (first_stage.js), while it exists. */
    specvizFirstStage?: {
      /** Once the page is drawn, call `goOn`, which continues the run there; then remove this view. */
      leave: (goOn: (state: import("./player.js").StateOfRun | null) => void) => void;
    };
    /** The newest player, the path of its page, and the `performance.now()` at which it was closed. */
    specvizLastPlayer?: { player: import("./player.js").Player; path: string; closed: number | null };
  }
}
