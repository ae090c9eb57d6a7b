// Reads /chat/stream, or without a body follows a run, with @microsoft/fetch-event-source; one line of JSON an event.
import { fetchEventSource } from "@microsoft/fetch-event-source";

// It is made for browsers: this is all that it wants of one.
globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

const [url, body] = process.argv.slice(2);
const post = { method: "POST", headers: { "Content-Type": "application/json" }, body };
await fetchEventSource(url, {
  ...(body === undefined ? {} : post),
  openWhenHidden: true,
  onopen: async ({ status }) => {
    if (status === 204) process.exit();
  },
  onmessage: ({ id, event, data }) => console.log(JSON.stringify({ id, event, data })),
  onerror: (error) => {
    if (body !== undefined) throw error; // or it would ask again, for ever
  },
});
