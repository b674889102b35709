// A translated text: its sentences, each with the translations that were found and which of them is shown.
import { wordPlaces } from "./spans.js";

export class Sentence {
  constructor(given) {
    Object.assign(this, { source: given.source, before: given.before, after: given.after });
    this.found = [given, ...given.alternatives].map((one) => new Wording(one));
    this.chosen = 0;
    this.listed = this.found.length; // without those that are chosen later
  }

  // The part of the text that it is of, with the white space around it.
  get asked() {
    return this.before + this.source + this.after;
  }

  get wording() {
    return this.found[this.chosen];
  }

  // Show a wording; one that is not there yet is added.
  choose(wording) {
    const place = this.found.findIndex((one) => one.text === wording.text);
    this.chosen = place < 0 ? this.found.push(wording) - 1 : place;
  }
}

// One translation of a sentence. prefix: what somebody chose it to begin with; the rest is the model's. finished: the
// model came to its end, and was not cut at its limit.
export class Wording {
  constructor(given, prefix = null) {
    const { text, score, words, finished = true } = given;
    Object.assign(this, { text, score, prefix, finished });
    const places = wordPlaces(text, words.map((word) => word.text));
    this.words = words.map((word, n) => ({ text: word.text, confidence: word.confidence, place: places[n] }))
      .filter((word) => word.place);
  }
}

export class Translated {
  // answer: what /v1/translate gives for one text.
  constructor(answer) {
    const { model, source, target, detected, translations } = answer;
    Object.assign(this, { model, source, target, detected });
    this.sentences = translations[0].sentences.map((one) => new Sentence(one));
  }

  get text() {
    return this.sentences.map((one) => one.before + one.wording.text + one.after).join("");
  }

  // The text it is of.
  get asked() {
    return this.sentences.map((one) => one.asked).join("");
  }
}
