// Follows a run with the package eventsource until it is told that there is no more; one line of JSON an event.
import { EventSource } from "eventsource";

const [url, ...names] = process.argv.slice(2);
const source = new EventSource(url); // node ends when it is closed, for then there is nothing to wait for
for (const name of new Set(names)) {
  source.addEventListener(name, ({ lastEventId: id, type: event, data }) => console.log(JSON.stringify({ id, event, data })));
}
