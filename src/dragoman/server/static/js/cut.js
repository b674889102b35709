// What is said of a translation that was cut at its limit, before the model had come to an end.
import { element, part } from "./dom.js";

const NAMED = 5; // sentences whose numbers are said

export function showCut({ sentences }) {
  const cut = sentences.flatMap(({ wording }, n) => (wording.finished ? [] : [n + 1]));
  if (!cut.length) { hideCut(); return; }
  const said = `${which(cut, sentences.length)} cut at the limit of length: the model had not come to an end.`;
  // Whoever listens is not told the same again.
  if (part("cut").textContent !== said) part("cut").replaceChildren(element("p", {}, said));
}

export function hideCut() {
  part("cut").replaceChildren();
}

function which(cut, all) {
  if (all === 1) return "This translation was";
  if (cut.length > NAMED) return `The translations of ${cut.length} sentences were`;
  const numbers = cut.length > 1 ? `${cut.slice(0, -1).join(", ")} and ${cut.at(-1)}` : cut[0];
  return cut.length > 1 ? `The translations of sentences ${numbers} were` : `The translation of sentence ${numbers} was`;
}
