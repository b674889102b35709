// Where words and tokens stand in a text: places are [start, end) in its UTF-16 units.

// For each word of a text its place, in order; null where the text does not show it as it is.
export function wordPlaces(text, words) {
  let at = 0;
  return words.map((word) => {
    const start = text.indexOf(word, at);
    if (start < 0) return null;
    at = start + word.length;
    return [start, at];
  });
}

// For each token its place in the text, or null: special tokens, unknown words, parts of a character. Case and
// Unicode form may be the tokenizer's own; after a token that is not found the next ones are looked for nearby.
const NEAR = 40;

export function tokenPlaces(text, tokens) {
  const [plain, origin] = folded(text);
  let at = 0;
  return tokens.map((token) => {
    const [piece] = folded(token.replaceAll("▁", ""));
    if (!piece || token.includes("�")) return null;
    const start = plain.indexOf(piece, at);
    if (start < 0 || start > at + NEAR) return null;
    at = start + piece.length;
    return [origin[start], origin[at - 1] + 1];
  });
}

// A text without its spaces and alike in all forms (NFKD, so that each character's form is its own); and for each unit
// of that the place it came from.
function folded(text) {
  let plain = "";
  const origin = [];
  let place = 0;
  for (const character of text) {
    const form = character.normalize("NFKD").toLowerCase().replace(/\s/gu, "");
    plain += form;
    for (let unit = 0; unit < form.length; unit++) origin.push(place + Math.min(unit, character.length - 1));
    place += character.length;
  }
  return [plain, origin];
}

// The words of a text in any script, without spaces and marks.
export function segments(text, language) {
  let segmenter;
  try {
    segmenter = new Intl.Segmenter(language || undefined, { granularity: "word" });
  } catch {
    segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  }
  return [...segmenter.segment(text)].filter((one) => one.segment.trim())
    .map((one) => [one.index, one.index + one.segment.length]);
}

export const overlap = (one, other) => Boolean(one && other && one[0] < other[1] && other[0] < one[1]);
