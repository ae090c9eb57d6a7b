// Reads /chat/stream with @microsoft/fetch-event-source; one line of JSON an event.
import { fetchEventSource } from "@microsoft/fetch-event-source";

// It is made for browsers: this is all that it wants of one.
globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

const [url, body] = process.argv.slice(2);
await fetchEventSource(url, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body,
  openWhenHidden: true,
  onmessage: ({ id, event, data }) => console.log(JSON.stringify({ id, event, data })),
  onerror: (error) => {
    throw error; // or it would ask again, for ever
  },
});
