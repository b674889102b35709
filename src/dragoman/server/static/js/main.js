// The page: its parts, put together.
import { get } from "./api.js";
import { Chooser } from "./chooser.js";
import { addKey, key, showKey } from "./key.js";
import { Desk } from "./desk.js";
import { hush, showRefusal } from "./notice.js";
import { addSwitch } from "./switch.js";

let desk = null;

async function begin() {
  hush();
  try {
    const [models, settings] = await Promise.all([get("v1/models"), get("frontend/settings")]);
    if (settings.keyRequired) showKey();
    desk = new Desk(settings.charLimit, (changed) => new Chooser(models, changed));
    if (!settings.keyRequired || key.value) desk.resume();
  } catch (error) {
    if (error.needsKey) showKey();
    showRefusal(error, begin, true);
  }
}

addSwitch();
addKey(() => (desk ? desk.translate() : begin()));
begin();
