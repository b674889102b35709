// The API key: kept in sessionStorage, which ends with the tab, and sent in a header.
import { part } from "./dom.js";

const NAME = "dragoman.key";

export const key = {
  value: "",

  headers() {
    return this.value ? { "X-API-Key": this.value } : {};
  },
};

try {
  key.value = sessionStorage.getItem(NAME) ?? "";
} catch {
  // A browser that keeps nothing: the key holds until the page is left.
}

export function showKey() {
  part("key").hidden = false;
}

// The key is right, or none is needed: its field goes, and who stood in it goes on in the text.
export function hideKey() {
  const row = part("key");
  const within = row.contains(document.activeElement);
  row.hidden = true;
  if (within) part("text").focus();
}

// changed: called when a key was given.
export function addKey(changed) {
  const field = part("secret");
  field.value = key.value;
  const take = () => {
    // A header holds no other characters.
    key.value = field.value.replace(/[^\x21-\x7e]/g, "");
    try {
      sessionStorage.setItem(NAME, key.value);
    } catch {
      // As above.
    }
    changed();
  };
  part("unlock").addEventListener("click", take);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    take();
  });
}
