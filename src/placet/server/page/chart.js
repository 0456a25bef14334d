// Charts over time, drawn by uPlot in the page's own colours.
import { html, useEffect, useRef } from "./html.js";
import uPlot from "./vendor/uplot.js";

const HEIGHT = 160;

// `series`: [{label, values}] over `times` (seconds).
export function Chart({ title, times, series, format = (value) => value?.toLocaleString("en") ?? "--" }) {
  const box = useRef(null);
  useEffect(() => {
    if (!times.length) return undefined;
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const element = box.current;
    const plot = new uPlot({
      width: element.clientWidth, height: HEIGHT, title, legend: { live: true },
      series: [{}, ...series.map((each, index) => ({ label: each.label, stroke: colour(`--chart-${index + 1}`), fill: `${colour(`--chart-${index + 1}`)}22`, width: 2, points: { show: times.length < 60 }, value: (_, value) => format(value) }))],
      axes: [axis, { ...axis, size: 60, values: (_, ticks) => ticks.map(format) }],
      scales: { y: { range: (_, low, high) => [0, Math.max(high, 1e-9) * 1.1] } },
    }, [times, ...series.map((each) => each.values)], element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => { observer.disconnect(); plot.destroy(); };
  }, [JSON.stringify([times, series])]);
  return html`<div class="chart" role="img" aria-label=${title}><div ref=${box}></div></div>`;
}
