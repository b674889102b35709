// The attention view and the beam replay (views/*.js), in a dialog.
import { part } from "./dom.js";

const VIEWS = {
  attention: { title: "Where the model looked", show: (root, data) => showAttention(root, data) },
  replay: { title: "How the search went", show: (root, data) => showReplay(root, data) },
};

// languages: {source, target}, codes.
export function openView(name, data, languages) {
  const [dialog, inside] = [part("view"), part("inside")];
  dialog.setAttribute("aria-label", VIEWS[name].title);
  dialog.addEventListener("close", () => inside.replaceChildren(), { once: true });
  dialog.showModal();
  try {
    VIEWS[name].show(inside, { ...data, languages }); // they measure the room that they have
  } catch (error) {
    dialog.close();
    throw error;
  }
}
