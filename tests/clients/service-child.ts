import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { ClientService } from "../support/client-service.ts";

/**
 * A service in a process of its own, so that a test can kill it: `service-child.ts <folder> <port>`. Writes what its tools do to
 * `deeds.txt` in the folder, and prints its URL and an agent's token.
 */
const [folder = "", port = "0"] = process.argv.slice(2);
const service = new ClientService({ folder });
service.deeds.push = (...deeds) => {
  appendFileSync(join(folder, "deeds.txt"), deeds.map((deed) => `${deed}\n`).join(""));
  return deeds.length;
};
await service.start({ server: { port: Number(port) } });
console.log(JSON.stringify({ url: service.url, token: await service.token() }));
