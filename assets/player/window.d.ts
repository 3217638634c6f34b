// Values that the player's scripts share through the window.

export {};

declare global {
  interface Window {
    /** The first view before the page (first_stage.js), while it exists. */
    specvizFirstStage?: {
      /** Leave once the page is drawn; `goOn` first continues the run there. */
      leave: (goOn: (state: import("./player.js").StateOfRun | null) => void) => void;
    };
    /** The newest player, the page that has it, and when by `performance.now()` it was closed. */
    specvizLastPlayer?: { player: import("./player.js").Player; path: string; closed: number | null };
  }
}
