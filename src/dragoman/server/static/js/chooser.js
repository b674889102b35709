// From which language into which, with which model, and how widely it searches.
import { element, part } from "./dom.js";

const AUTO = "auto";
const BEAMS = [1, 2, 3, 5, 8, 12];
const MOST = 5; // translations that are shown of a sentence

export class Chooser {
  // models: what /v1/models gives; changed: called when somebody chose something else.
  constructor(models, changed) {
    this.models = models;
    const sources = new Map(models.map((one) => [one.source, one.source_name]));
    const options = [...sources].map(([code, name]) => element("option", { value: code }, name));
    if (sources.size > 1) options.push(element("option", { value: AUTO }, "Detect language"));
    part("source").replaceChildren(...options);
    this.fill();
    for (const id of ["source", "target", "model", "beam"]) {
      part(id).addEventListener("change", () => { this.fill(); changed(); });
    }
    part("swap").addEventListener("click", () => this.swap(changed));
  }

  get source() {
    return part("source").value;
  }

  get target() {
    return part("target").value;
  }

  // The chosen model; null where the language is still to be found.
  get model() {
    return this.source === AUTO ? null : this.models.find((one) => one.name === part("model").value);
  }

  // The fields of a request.
  get wanted() {
    const model = this.model;
    const beam = Number(part("beam").value);
    const able = model ? [model] : this.models.filter((one) => one.target === this.target);
    const options = beam ? this.search : { n_best: Math.min(MOST, ...able.map((one) => one.decode.beam_size)) };
    return model ? { model: model.name, options } : { source: AUTO, target: this.target, options };
  }

  // How a sentence is searched again by itself.
  get search() {
    const beam = Number(part("beam").value);
    return beam ? { beam_size: beam, n_best: Math.min(MOST, beam) } : {};
  }

  from(source) {
    return this.models.filter((one) => source === AUTO || one.source === source);
  }

  // Bring the lists into line with one another.
  fill() {
    const targets = new Map(this.from(this.source).map((one) => [one.target, one.target_name]));
    list(part("target"), [...targets]);
    const models = this.from(this.source).filter((one) => one.target === this.target);
    list(part("model"), models.map((one) => [one.name, one.name]));
    part("models").hidden = this.source === AUTO || models.length < 2;
    const own = models.find((one) => one.name === part("model").value).decode.beam_size;
    list(part("beam"), [["", `as set in the model (${own})`],
      ...BEAMS.map((beam) => [String(beam), beam === 1 ? "1: greedy" : `${beam} hypotheses`])]);
    const back = this.models.some((one) => one.source === this.target && one.target === this.source);
    part("swap").disabled = !back;
    part("swap").title = back || this.source === AUTO ? "" : "No model here translates the other way";
  }

  swap(changed) {
    const [source, target] = [this.source, this.target];
    part("source").value = target;
    this.fill();
    part("target").value = source;
    this.fill();
    changed(true);
  }
}

// The entries [value, text] of a list; what was chosen stays chosen where it is still there.
function list(select, entries) {
  const chosen = select.value;
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
  if (entries.some(([value]) => value === chosen)) select.value = chosen;
}
