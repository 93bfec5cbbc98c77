import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";

import { describePlot, type Rack } from "@/components/gpu-map/garden";
import {
  hitTest,
  layoutGarden,
  neighbour,
  type Direction,
  type GardenLayout,
  type Hit,
} from "@/components/gpu-map/layout";
import { paintGarden, paintHighlight, plotColour, readPalette, type ColourBy } from "@/components/gpu-map/paint";
import { PlotCard } from "@/components/gpu-map/plot-card";
import { colour, useTheme } from "@/ui/theme";
import styles from "@/components/gpu-map/gpu-map.module.css";

interface GpuMapProps {
  racks: readonly Rack[];
  colourBy: ColourBy;
  tenants: readonly string[];
  preferredHeight?: number;
}

const DIRECTIONS: readonly string[] = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"] satisfies Direction[];

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
    if (event.key === "Enter") goTo(hit);
    if (event.key === "Escape") setAt(null);
    if (!DIRECTIONS.includes(event.key)) return;
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
