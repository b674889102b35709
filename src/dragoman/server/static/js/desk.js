// From a text to its translation: when it is asked for, and what is shown of it on the way.
import { stream } from "./api.js";
import { copy } from "./copy.js";
import { part } from "./dom.js";
import { hideKey, showKey } from "./key.js";
import { hush, say, showRefusal } from "./notice.js";
import { Reading } from "./reading.js";
import { Refusal } from "./refusal.js";
import { Sheet } from "./sheet.js";
import { Translated } from "./translated.js";

const PAUSE = 600; // ms without a key before a text is translated by itself,
const SHORT = 1000; // if it is not longer than so many characters
const TOLD = 500; // characters of a translation that is read out as a whole when it is there

const count = (number) => number.toLocaleString("en");

export class Desk {
  // limit: characters that the server takes; chooserOf(changed): makes the choice of languages.
  constructor(limit, chooserOf) {
    Object.assign(this, { limit, running: null, timer: 0 });
    this.sheet = new Sheet(() => this.typed());
    this.chooser = chooserOf((swapped = false) => this.turned(swapped));
    this.reading = new Reading(this.sheet, () => this.chooser.search, () => this.settle());
    part("ask").addEventListener("submit", (event) => { event.preventDefault(); this.translate(); });
    part("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.translate(); }
    });
    part("clear").addEventListener("click", () => { this.sheet.text = ""; this.typed(); part("text").focus(); });
    part("copy").addEventListener("click", () => this.copy());
    this.settle();
  }

  get length() {
    return [...this.sheet.text].length;
  }

  // A text that the browser kept over a reload.
  resume() {
    if (this.sheet.text.trim()) this.translate();
  }

  typed() {
    this.stop();
    this.settle();
    if (!this.sheet.text.trim()) this.empty();
    else if (this.length <= SHORT) this.timer = setTimeout(() => this.translate(), PAUSE);
  }

  turned(swapped) {
    const { translated } = this.reading;
    if (swapped && translated?.asked === this.sheet.text) this.sheet.text = translated.text;
    this.settle();
    this.translate();
  }

  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
    part("result").removeAttribute("aria-busy");
    this.reading.drop();
  }

  empty() {
    hush();
    this.reading.clear();
    this.settle();
  }

  // What follows from the text and its translation as they are.
  settle() {
    const { translated } = this.reading;
    const { length } = this;
    part("count").textContent = `${count(length)} of ${count(this.limit)}`;
    part("count").classList.toggle("over", length > this.limit);
    part("clear").disabled = !this.sheet.text;
    part("copy").disabled = !translated?.text;
    this.reading.words.stale(translated !== null && translated.asked !== this.sheet.text);
    const { source } = this.chooser;
    this.sheet.language = source === "auto" ? translated?.source : source;
    if (!translated) part("about").textContent = "";
  }

  async translate() {
    this.stop();
    hush();
    const { text } = this.sheet;
    if (!text.trim()) { this.empty(); return; }
    if (this.length > this.limit) {
      const reason = `the text has ${count(this.length)} characters and the server takes ${count(this.limit)}; shorten it.`;
      this.refuse(new Refusal(413, reason));
      return;
    }
    const own = new AbortController();
    this.running = own;
    part("result").setAttribute("aria-busy", "true");
    part("about").textContent = "Translating …";
    const started = performance.now();
    let made = "";
    try {
      const answer = await stream({ text, ...this.chooser.wanted }, own.signal, (piece) => {
        made += piece;
        if (this.running === own) this.reading.drop(made, this.chooser.target);
      });
      if (this.running === own) this.show(new Translated(answer), performance.now() - started);
    } catch (error) {
      if (this.running === own) this.refuse(error);
    }
  }

  show(translated, milliseconds) {
    this.running = null;
    hideKey();
    part("result").removeAttribute("aria-busy");
    this.reading.show(translated);
    const { model, detected } = translated;
    const found = detected ? `detected ${part("source").querySelector(`[value="${CSS.escape(detected.language)}"]`)?.textContent
      ?? detected.language} (${Math.round(detected.confidence)} %), ` : "";
    part("about").textContent = `${found}model ${model}, ${(milliseconds / 1000).toFixed(1)} s`;
    this.settle();
    if (translated.text.length <= TOLD) say(translated.text, translated.target);
    else say(`Translated: ${count(translated.sentences.length)} sentences, ${count(translated.text.length)} characters.`);
  }

  refuse(error) {
    this.running = null;
    part("result").removeAttribute("aria-busy");
    part("about").textContent = "";
    if (error.needsKey) showKey();
    // Of what there was, only the beginning of this translation is still of use.
    if (this.reading.translated?.asked !== this.sheet.text) this.reading.end();
    this.settle();
    showRefusal(error, () => this.translate());
  }

  async copy() {
    const done = await copy(part("result").textContent);
    say(done ? "Copied." : "The browser does not let the page copy; mark the text and copy it.");
  }
}
