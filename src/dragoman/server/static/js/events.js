// Server-sent events from the body of an answer: {name, data} for each, the data read as JSON.
export async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) yield event(block);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function event(block) {
  const fields = Object.fromEntries(block.split("\n").map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
  }));
  return { name: fields.event, data: JSON.parse(fields.data) };
}
