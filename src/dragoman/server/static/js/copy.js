// Copying a text. The clipboard of the browser is there at https and at this machine's own addresses alone.
import { element } from "./dom.js";

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyMarked(text);
  }
}

function copyMarked(text) {
  const focused = document.activeElement;
  const field = element("textarea", { class: "unseen", "aria-hidden": "true", readonly: true });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return done;
}
