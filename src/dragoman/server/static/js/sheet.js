// The text to translate. A mirror of it lies under the text field, of the same type and width: it gives the field its
// height, and carries the shades of what a word of the translation attended to.
import { element, part, speak } from "./dom.js";

export class Sheet {
  constructor(changed) {
    [this.field, this.mirror] = [part("text"), part("mirror")];
    // Letters on the way to a character of another script are no text yet.
    this.field.addEventListener("input", ({ isComposing }) => { this.plain(); if (!isComposing) changed(); });
    this.field.addEventListener("compositionend", () => changed());
    this.plain();
  }

  get text() {
    return this.field.value;
  }

  set text(value) {
    this.field.value = value;
    this.plain();
  }

  set language(code) {
    speak(this.field, code);
    speak(this.mirror, code);
  }

  plain() {
    this.fill([this.text]);
  }

  // Show a sentence of a translated text, and how much of the attention its words got: {place, share}.
  shade(translated, number, words = []) {
    if (translated.asked !== this.text) return;
    const { sentences } = translated;
    const { before, source } = sentences[number];
    const start = sentences.slice(0, number).reduce((sum, one) => sum + one.asked.length, 0) + before.length;
    const top = Math.max(...words.map((word) => word.share), 0);
    const own = [];
    let at = 0;
    for (const { place: [from, to], share } of words) {
      own.push(source.slice(at, from), seen(source.slice(from, to), share, top));
      at = to;
    }
    own.push(source.slice(at));
    const current = element("span", { class: sentences.length > 1 ? "current" : "" }, ...own);
    this.fill([this.text.slice(0, start), current, this.text.slice(start + source.length)]);
  }

  fill(content) {
    // The last line has its height even where nothing stands in it.
    this.mirror.replaceChildren(...content, "\u200b");
  }
}

// A word of the source; what got most of the attention has a thick line, what got much of it a thin one.
function seen(text, share, top) {
  const made = element("span", {
    class: "seen", "data-share": share.toFixed(3), "data-line": top > 0 && share === top ? "thick" : share > 0.15 ? "thin" : null,
  }, text);
  made.style.setProperty("--share", share.toFixed(3));
  return made;
}
