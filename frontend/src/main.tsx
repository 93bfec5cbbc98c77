import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import "@/ui/tokens.css";
import "@/ui/base.css";
import { App } from "@/app/app";
import { startTheme } from "@/ui/theme";

startTheme();
const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
