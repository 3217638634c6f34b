// The player has a light and a dark theme, chosen by the background colour of the page.

/**
 * The theme that suits an element of the page.
 * @param {HTMLElement} parent @returns {"light"|"dark"}
 */
export function themeFor(parent) {
  const background = getComputedStyle(parent).getPropertyValue("--st-background-color");
  return luminance(background.trim(), document.body) < 0.4 ? "dark" : "light";
}

/** The theme of an element of the player. @param {Element} element */
export function themeOf(element) {
  return element.closest(".sv")?.getAttribute("data-theme") ?? "";
}

/** @param {string} colour @param {Element} probe @returns {number} from 0, black, to 1, white */
function luminance(colour, probe) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d");
  if (!pen) return 1;
  pen.fillStyle = colour || getComputedStyle(probe).backgroundColor;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}
