// What the page shares with the views (views/base.js): everything enters the page as text, never as markup.
export const { direction, element, isDark } = page;

// A probability or a share, in per cent.
export const percent = (share) => (share < 0.001 ? "<0.1 %" : page.percent(share));

export const part = (id) => document.getElementById(id);

// The language of what an element holds; none where it is not known.
export function speak(where, language) {
  if (language) where.lang = language;
  else where.removeAttribute("lang");
}
