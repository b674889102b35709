// Server-sent events from the body of an answer: {name, data} for each, the data read as JSON; what has none is passed by.
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
      yield* blocks.map(event).filter(({ data }) => data !== undefined);
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
  return { name: fields.event, data: fields.data && JSON.parse(fields.data) };
}
