import { render } from "preact";
import { start } from "./session.ts";
import { Shell } from "./shell.tsx";

const root = document.getElementById("app");
// What the page says while its script is missing goes first.
root?.replaceChildren();
if (root !== null) render(<Shell />, root);
void start();
