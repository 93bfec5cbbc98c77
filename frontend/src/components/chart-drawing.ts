import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { clockTime, dayOf, minuteTime } from "@/components/format";
import { colour } from "@/ui/theme";

/** A place on a chart to which the pointer is near. */
export interface Pointed {
  /** Of the values. */
  index: number;
  /** Of the pointer in the window, in pixels. */
  x: number;
  y: number;
}

type OnPoint = (pointed: Pointed | null) => void;

/** Draw curves in an element, as wide as it is. `shape`: see `Shape`, as JSON. */
export function draw(element: HTMLElement, shape: string, data: uPlot.AlignedData, onPoint: OnPoint): uPlot {
  return new uPlot(optionsFrom(shape, element.clientWidth, onPoint), data, element);
}

/** What a chart is made of; when only figures change the same chart takes new data. */
type Shape = [
  [string, string, boolean | null, boolean | null, boolean][],
  number,
  boolean,
  number | null,
  string,
  string | null,
  boolean,
  number[],
];

function optionsFrom(shape: string, width: number, onPoint: OnPoint): uPlot.Options {
  const [series, height, isTime, ceiling, , xLabel, hasGaps, marks] = JSON.parse(shape) as Shape;
  const font = `12px ${colour("font-text")}`;
  const axis: uPlot.Axis = {
    stroke: colour("ink-muted"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font,
  };
  const banded = series.filter(([, , , , hasBand]) => hasBand);
  return {
    width,
    height,
    scales: {
      x: { time: isTime },
      y: ceiling === null ? {} : { range: (_chart, _low, high) => [0, Math.max(ceiling, high)] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        ...(isTime ? { values: clockAxis, incrs: CLOCK_STEPS_SECONDS, space: 80 } : { incrs: WHOLE_STEPS }),
        ...(xLabel ? { label: xLabel, labelSize: 16, labelGap: 0, labelFont: font } : {}),
      },
      {
        ...axis,
        size: (_chart, values: string[] | null) => axisWidth(values ?? []),
        values: (_chart, splits) => splits.map((value) => axisFormat.format(value)),
      },
    ],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    series: [
      {},
      ...series.map(([name, token, stacked, dashed]) => ({
        label: name,
        stroke: colour(token),
        width: stacked ? 1 : 1.75,
        ...(stacked ? { fill: colour(token) } : {}),
        ...(dashed ? { dash: [5, 4] } : {}),
        points: { show: false },
        spanGaps: !hasGaps,
      })),
      ...banded.flatMap(() => [BAND_EDGE, BAND_EDGE]),
    ],
    bands: banded.map(([, token], place) => {
      const high = 1 + series.length + 2 * place;
      return { series: [high, high + 1], fill: `${colour(token)}${BAND_ALPHA}` };
    }),
    hooks: {
      drawAxes: [(chart) => drawMarks(chart, marks)],
      setCursor: [(chart) => onPoint(pointedOn(chart))],
    },
  };
}

/** Steps and GPUs are counted: there is no half of one to name on an axis. */
const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
/** Of a band, in hexadecimal. */
const BAND_ALPHA = "33";

/** An edge of a band has no line of its own. */
const BAND_EDGE: uPlot.Series = { width: 0, points: { show: false } };

function pointedOn(chart: uPlot): Pointed | null {
  const { idx, left = -1, top = -1 } = chart.cursor;
  if (idx == null || left < 0) return null;
  const { left: x, top: y } = chart.over.getBoundingClientRect();
  return { index: idx, x: x + left, y: y + top };
}

function drawMarks(chart: uPlot, marks: readonly number[]): void {
  const { ctx, bbox, scales } = chart;
  ctx.save();
  ctx.strokeStyle = colour("ink-faint");
  ctx.setLineDash([3, 4]);
  for (const mark of marks) {
    if (mark < (scales.x?.min ?? mark) || mark > (scales.x?.max ?? mark)) continue;
    const at = chart.valToPos(mark, "x", true);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

const LEAST_AXIS_PIXELS = 44;
/** At the axis' 12 pixels a digit is 7 wide; the gap to the curves and a margin come beside. */
const DIGIT_PIXELS = 7;
const BESIDE_PIXELS = 16;

/** How wide the vertical axis is so that its longest label is whole. */
export function axisWidth(labels: readonly string[]): number {
  const longest = labels.reduce((most, label) => Math.max(most, label.length), 0);
  return Math.max(LEAST_AXIS_PIXELS, longest * DIGIT_PIXELS + BESIDE_PIXELS);
}

/** The usual three decimals would name two neighbours alike where values are small. */
const axisFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Between two times that an axis names: what is closer together than a second would read alike. */
const CLOCK_STEPS_SECONDS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map((hours) => hours * HOUR),
  ...[1, 2, 4, 7, 14, 28].map((days) => days * DAY),
];

/** Hours and minutes, seconds only when the span is short, and the day where one begins. */
function clockAxis(_chart: uPlot, splits: number[], _axis: number, _space: number, increment: number): string[] {
  const clock = increment < MINUTE ? clockTime : minuteTime;
  return splits.map((seconds) => {
    const at = new Date(seconds * 1000);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
    return (increment >= HOUR && isMidnight ? dayOf : clock)(at.toISOString());
  });
}
