// What scripts of the player leave for one another in the window.

export {};

declare global {
  interface Window {
    /** The stage before the page (first_stage.js), while it is there. */
    specvizFirstStage?: {
      state: () => import("./player.js").StateOfRun | null;
      leave: () => void;
    };
  }
}
