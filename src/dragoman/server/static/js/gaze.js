// What the words of a translation attended to: source attention, the mean over all layers and heads.
import { overlap, segments, tokenPlaces } from "./spans.js";

export class Gaze {
  // data: what /v1/attention gives; language: of the source.
  constructor(data, language) {
    const map = data.maps.find((one) => one.kind === "cross");
    this.rows = meanOf(map);
    this.queries = tokenPlaces(data.text, map.queries);
    this.words = segments(data.source, language).map((place) => ({ place, text: data.source.slice(...place) }));
    const owners = tokenPlaces(data.source, map.keys).map((key) => this.words.findIndex((word) => overlap(word.place, key)));
    this.keys = this.words.map((_, word) => owners.flatMap((owner, key) => (owner === word ? [key] : [])));
  }

  // For a place in the translation each word of the source, {place, text, share}, with the share of attention that it
  // got; what special tokens got is missing. Null where no token of the place is known.
  at(place) {
    const rows = this.rows.filter((_, query) => overlap(this.queries[query], place));
    if (!rows.length) return null;
    const share = (keys) => sum(keys, (key) => sum(rows, (row) => row[key])) / rows.length;
    return this.words.map((word, n) => ({ ...word, share: share(this.keys[n]) }));
  }
}

const sum = (values, of) => values.reduce((total, value) => total + of(value), 0);

// weights: 16-bit numbers in base64, 65535 being 1, in the order layer, head, query, key.
function meanOf({ weights, layers, heads, queries, keys }) {
  const bytes = Uint8Array.from(atob(weights), (character) => character.charCodeAt(0));
  const numbers = new DataView(bytes.buffer);
  const [panels, size] = [layers * heads, queries.length * keys.length];
  const mean = (cell) => {
    let total = 0;
    for (let panel = 0; panel < panels; panel++) total += numbers.getUint16(2 * (panel * size + cell), true);
    return total / 65535 / panels;
  };
  return queries.map((_, query) => keys.map((_, key) => mean(query * keys.length + key)));
}
