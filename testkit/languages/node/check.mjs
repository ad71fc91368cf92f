// Carries out the commands of standard input with node-postgres; see ../README.md.

import { createInterface } from "node:readline";

import pg from "pg";

import { placeOrder, send } from "./outbox.mjs";

const bytes = (word) => (word === "-" ? null : Buffer.from(word.slice(1), "base64"));
const text = (word) => (word === "-" ? null : bytes(word).toString("utf8"));
const number = (word) => (word === "-" ? null : Number(text(word)));
// As text: a Date has milliseconds only.
const time = text;

async function insert(client, order, words) {
  await client.query("INSERT INTO orders (id, total) VALUES ($1, 0)", [order]);
  const [eventId, eventType, aggregateType, aggregateId, eventKey, payload] = words.slice(0, 6).map(text);
  await send(client, {
    eventId, eventType, aggregateType, aggregateId, eventKey, payload,
    payloadBytes: bytes(words[6]), contentType: text(words[7]), headers: text(words[8]),
    priority: number(words[9]), availableAt: time(words[10]), createdAt: time(words[11]),
  });
}

const client = new pg.Client({ connectionString: process.argv[2] });
await client.connect();
let open = false;
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const [command, order, ...words] = line.split(" ");
  switch (command) {
    case "insert":
      if (!open) await client.query("BEGIN");
      open = true;
      await insert(client, order, words);
      break;
    case "order":
      await placeOrder(client, order, Number(words[0]));
      break;
    case "commit":
    case "rollback":
      await client.query(command);
      open = false;
      break;
    default:
      throw new Error(`there is no command ${command}`);
  }
}
await client.end();
