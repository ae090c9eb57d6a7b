// Reads /chat/stream with eventsource-parser; one line of JSON an event.
import { createParser } from "eventsource-parser";

const [url, body] = process.argv.slice(2);
const response = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
const parser = createParser({
  onEvent: ({ id, event, data }) => console.log(JSON.stringify({ id, event, data })),
  onError: (error) => {
    throw error;
  },
});
const decoder = new TextDecoder();
for await (const chunk of response.body) parser.feed(decoder.decode(chunk, { stream: true }));
