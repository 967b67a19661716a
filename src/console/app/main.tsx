import { render } from "preact";
import { start } from "./session.ts";
import { Shell } from "./shell.tsx";

const root = document.getElementById("app");
// Removes the message that the page shows until its script has started.
root?.replaceChildren();
if (root !== null) render(<Shell />, root);
void start();
