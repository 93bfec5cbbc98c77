import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Screen } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef } from "react";

import { EXIT, Flow, OPENED, OUTPUT, PROBLEM, sizeFrame, TAKEN } from "@/components/terminal/frames";
import styles from "@/components/terminal/terminal.module.css";

interface TerminalProps {
  job: number;
  rank: number;
  /** Told once, with why there is nothing (more) to see. */
  onEnd: (why: string) => void;
}

const KIND = "xterm-256color";

/** A shell beside one process of a running job. Loaded only when somebody opens one. */
export function Terminal({ job, rank, onEnd }: TerminalProps) {
  const place = useRef<HTMLDivElement>(null);
  const end = useRef(onEnd);
  useEffect(() => {
    end.current = onEnd;
  });
  useEffect(() => {
    if (!place.current) return;
    return show(place.current, job, rank, (why) => end.current(why));
  }, [job, rank]);
  return <div ref={place} className={styles.screen} aria-label={`Shell in rank ${rank} of job ${job}`} />;
}

function show(place: HTMLElement, job: number, rank: number, onEnd: (why: string) => void): () => void {
  const look = getComputedStyle(place);
  const screen = new Screen({
    cursorBlink: true,
    fontFamily: look.fontFamily,
    fontSize: 13,
    scrollback: 5_000,
    screenReaderMode: true,
    theme: { background: look.getPropertyValue("background-color"), foreground: look.getPropertyValue("color") },
  });
  const fit = new FitAddon();
  screen.loadAddon(fit);
  screen.open(place);
  fit.fit();

  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/ws/jobs/${job}/session`);
  socket.binaryType = "arraybuffer";
  const flow = new Flow((frame) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(frame);
  });
  let hasEnded = false;
  const ended = (why: string) => {
    if (!hasEnded) onEnd(why);
    hasEnded = true;
  };

  socket.onopen = () => {
    const terminal = { type: KIND, rows: screen.rows, columns: screen.cols };
    socket.send(JSON.stringify({ rank, terminal }));
  };
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
    const frame = new Uint8Array(data);
    switch (frame[0]) {
      case TAKEN:
        flow.regain(frame);
        return;
      case OPENED:
        screen.focus();
        break;
      case OUTPUT:
        // Taken in once it is shown: a flood waits at its source.
        screen.write(frame.subarray(1), () => flow.consumed(frame));
        return;
      case EXIT:
        ended(`It ended with exit code ${frame[1] ?? "unknown"}.`);
        break;
      case PROBLEM:
        ended(new TextDecoder().decode(frame.subarray(1)));
        break;
    }
    flow.consumed(frame);
  };
  socket.onclose = () => ended("The connection was lost.");

  const typed = screen.onData((text) => flow.data(new TextEncoder().encode(text)));
  const pasted = screen.onBinary((text) => flow.data(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  const resized = screen.onResize(({ rows, cols }) => flow.frame(sizeFrame(rows, cols)));
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(place);
  return () => {
    hasEnded = true;
    watch.disconnect();
    for (const each of [typed, pasted, resized]) each.dispose();
    socket.close();
    screen.dispose();
  };
}
