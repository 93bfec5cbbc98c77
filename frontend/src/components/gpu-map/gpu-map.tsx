import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from "react";

import { counted, duration, secondsBetween } from "@/components/format";
import { describePlot, type Plot, type Rack, sharerText, STATE_TEXT, unseenText } from "@/components/gpu-map/garden";
import styles from "@/components/gpu-map/gpu-map.module.css";
import {
  type Direction,
  type GardenLayout,
  type Hit,
  hitTest,
  layoutGarden,
  neighbour,
} from "@/components/gpu-map/layout";
import { type ColourBy, paintGarden, paintHighlight, plotColour, readPalette } from "@/components/gpu-map/paint";
import { useNow } from "@/components/now";
import { pressed } from "@/ui/keys";
import { colour, useTheme } from "@/ui/theme";

interface GpuMapProps {
  racks: readonly Rack[];
  colourBy: ColourBy;
  tenants: readonly string[];
  preferredHeight?: number;
}

/** Every GPU of the cluster, by rack and node, on one canvas; a second one carries the highlight. */
export function GpuMap({ racks, colourBy, tenants, preferredHeight = 420 }: GpuMapProps) {
  const frame = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  const theme = useTheme();
  const navigate = useNavigate();

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const layout = useMemo(
    () => layoutGarden(racks, Math.max(width, 200), preferredHeight),
    [racks, width, preferredHeight],
  );
  const palette = useMemo(() => ({ ...readPalette(colour), theme }), [theme]);
  // The point, not the object under it, is remembered: what is there changes while one looks.
  const hit = useMemo(() => (at ? hitTest(layout, at.x, at.y) : null), [layout, at]);

  useEffect(() => {
    const pen = prepare(base.current, layout);
    if (pen) paintGarden(pen, layout, palette, plotColour(palette, colourBy, tenants));
  }, [layout, palette, colourBy, tenants]);

  useEffect(() => {
    const pen = prepare(overlay.current, layout);
    if (pen && hit) paintHighlight(pen, layout, palette, hit);
  }, [layout, palette, hit]);

  const follow = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    setAt({ x: event.clientX - box.left, y: event.clientY - box.top });
  };
  const goTo = (target: Hit | null) => {
    if (target?.plot?.plot.job) void navigate({ to: "/jobs/$id", params: { id: String(target.plot.plot.job.id) } });
    else if (target) void navigate({ to: "/nodes/$name", params: { name: target.bed.bed.node.name } });
  };
  const press = (event: KeyboardEvent) => {
    const key = pressed("map", event);
    if (key === "open") goTo(hit);
    if (key === "leave") setAt(null);
    if (key !== "move") return;
    event.preventDefault();
    const plot = neighbour(layout, hit, event.key as Direction)?.plot;
    if (plot) setAt({ x: plot.x + plot.width / 2, y: plot.y + plot.height / 2 });
  };
  const sentence = hit?.plot ? describePlot(hit.bed.bed, hit.plot.plot) : "";
  return (
    <div ref={frame} className={styles.frame}>
      <div className={styles.canvases} style={{ width: layout.width, height: layout.height }}>
        <canvas ref={base} aria-hidden />
        <canvas
          ref={overlay}
          role="application"
          aria-label={`Map of ${summary(layout)}. Arrow keys move from GPU to GPU, Enter opens the job.`}
          tabIndex={0}
          className={hit?.plot ? styles.pointing : undefined}
          onPointerMove={follow}
          onPointerLeave={() => setAt(null)}
          onBlur={() => setAt(null)}
          onClick={() => goTo(hit)}
          onKeyDown={press}
        />
        {hit?.plot && <PlotCard hit={hit} layoutWidth={layout.width} />}
      </div>
      <span className="visually-hidden" role="status">
        {sentence}
      </span>
    </div>
  );
}

/** Size the canvas for the screen's pixels and clear it. */
function prepare(canvas: HTMLCanvasElement | null, layout: GardenLayout): CanvasRenderingContext2D | null {
  const pen = canvas?.getContext("2d");
  if (!canvas || !pen) return null;
  const scale = window.devicePixelRatio;
  canvas.width = Math.ceil(layout.width * scale);
  canvas.height = Math.ceil(layout.height * scale);
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}

function summary(layout: GardenLayout): string {
  const beds = layout.racks.flatMap((rack) => rack.beds);
  const gpus = beds.reduce((total, bed) => total + bed.plots.length, 0);
  return `${gpus} GPUs on ${beds.length} nodes in ${layout.racks.length} racks`;
}

const CARD_WIDTH = 248;

/** What is known of the GPU under the pointer. */
function PlotCard({ hit, layoutWidth }: { hit: Hit; layoutWidth: number }) {
  const now = useNow();
  if (!hit.plot) return null;
  const { gpu, job, sharers, successor, state } = hit.plot.plot;
  const { node } = hit.bed.bed;
  const left = Math.max(0, Math.min(hit.plot.x + hit.plot.width / 2 - CARD_WIDTH / 2, layoutWidth - CARD_WIDTH));
  const runs = job ? secondsBetween(job.attempt?.running_at ?? null, null, now) : null;
  return (
    <div className={styles.card} style={{ left, top: hit.plot.y + hit.plot.height + 8, width: CARD_WIDTH }} aria-hidden>
      <p className={styles.where}>
        {node.name} · GPU {gpu.index} · {node.gpu_model}
      </p>
      {sharers.length > 0 ? (
        <Sharers plot={hit.plot.plot} />
      ) : job ? (
        <>
          <p className={styles.job}>
            {job.name} <span>#{job.id}</span>
          </p>
          <p>
            {job.tenant} · {job.virtual_cluster} · {job.guarantee}
          </p>
          <p>
            {STATE_TEXT[state]}
            {runs !== null && ` for ${duration(runs)}`} · {counted(job.gpus, "GPU")} in all
          </p>
        </>
      ) : (
        <p>{STATE_TEXT[state]}</p>
      )}
      {successor && (
        <p>
          Next: {successor.name} #{successor.id} of {successor.tenant}
        </p>
      )}
      {gpu.problem && <p className={styles.problem}>{gpu.problem}</p>}
    </div>
  );
}

/** Who has which part of a shared GPU, the topmost on the map first. */
function Sharers({ plot }: { plot: Plot }) {
  const unseen = unseenText(plot);
  return (
    <>
      {unseen && <p>{unseen}</p>}
      {[...plot.sharers].reverse().map((sharer) => (
        <p key={sharer.job.id} className={styles.sharer}>
          {sharerText(sharer, plot.gpu)}
        </p>
      ))}
    </>
  );
}
