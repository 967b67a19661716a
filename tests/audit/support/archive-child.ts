import { startArchiving, untilArchived } from "../../support/archived-log.ts";
import { openArchive } from "../../support/object-storage.ts";

// Archives the log of its first argument with the settings in the second, until it has all of it.
const [dir = "", settings = "{}"] = process.argv.slice(2);
const exporters = startArchiving(dir, openArchive(JSON.parse(settings)));
await untilArchived(exporters);
process.exit(0);
