// The page: its parts, put together.
import { get } from "./api.js";
import { Chooser } from "./chooser.js";
import { addKey, key, showKey } from "./key.js";
import { Desk } from "./desk.js";
import { showRefusal } from "./notice.js";
import { addSwitch } from "./switch.js";

async function begin() {
  try {
    const [models, settings] = await Promise.all([get("v1/models"), get("frontend/settings")]);
    if (settings.keyRequired) showKey();
    const desk = new Desk(settings.charLimit, (changed) => new Chooser(models, changed));
    addKey(() => desk.translate());
    if (!settings.keyRequired || key.value) desk.resume();
  } catch (error) {
    showRefusal(error, begin);
  }
}

addSwitch();
begin();
