import { render } from "preact";
import { start } from "./session.ts";
import { Shell } from "./shell.tsx";

const root = document.getElementById("app");
if (root !== null) render(<Shell />, root);
void start();
