"""How pages look: one column on a phone, light or dark as the reader's screen; nothing is loaded from elsewhere."""

from __future__ import annotations

from seqsmooth.reports.charts import STYLE as CHARTS

STYLE = (
    CHARTS
    + """
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1f2933;--soft:#5d6b7a;--line:#e3e7ec;--accent:#0b6e99;
--c0:#4b5563;--c1:#d97706;--c2:#0891b2;--c3:#7c3aed;--c4:#dc2626;--c5:#16a34a;--c6:#db2777;--c7:#2563eb}
@media (prefers-color-scheme:dark){:root{--paper:#12171d;--card:#1a2129;--ink:#e5e9ee;--soft:#98a4b3;--line:#2c3642;
--accent:#5cc0ea;--c0:#aab4c0;--c1:#fbb040;--c2:#38bdf8;--c3:#a78bfa;--c4:#f87171;--c5:#4ade80;--c6:#f472b6;--c7:#60a5fa}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:clamp(1.6rem,4vw,2.3rem);line-height:1.15;margin:0 0 .3em;letter-spacing:-.015em}
h2{font-size:1.25rem;margin:2.4em 0 .7em;letter-spacing:-.01em}
h3{font-size:.95rem;margin:0 0 .4em}
p{margin:.4em 0 1em;max-width:75ch}.soft{color:var(--soft)}.small{font-size:.86rem}
a{color:var(--accent)}
.facts{display:flex;flex-wrap:wrap;gap:8px;margin:1em 0 0;padding:0;list-style:none}
.facts li{background:var(--card);border:1px solid var(--line);border-radius:999px;padding:3px 13px;font-size:.86rem}
.facts b{font-variant-numeric:tabular-nums}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:16px 18px;min-width:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:7px 12px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
tr:last-child td{border-bottom:0}
th{font-weight:600;color:var(--soft);font-size:.82rem}
th:first-child,td:first-child,.left{text-align:left}
td .sd{color:var(--soft);font-size:.84em}td .up{color:#15803d}td .down{color:#b91c1c}
@media (prefers-color-scheme:dark){td .up{color:#4ade80}td .down{color:#f87171}}
.chip{display:inline-block;width:.72em;height:.72em;border-radius:3px;margin-right:.55em;vertical-align:baseline}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:16px}
.charts p{margin:.3em 0 0}
svg.chart{width:100%;height:auto;display:block}
.legend{display:flex;flex-wrap:wrap;gap:6px 18px;margin:0 0 12px;padding:8px 0;list-style:none;font-size:.9rem;
position:sticky;top:0;background:var(--paper);z-index:2}
.legend li{cursor:default}
[data-row]{transition:opacity .12s}
.examples{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:16px}
.example{padding:0;overflow:hidden;display:flex}
.example img{width:190px;flex:none;align-self:flex-start;aspect-ratio:1;object-fit:cover;display:block;
border-bottom-right-radius:14px;background:var(--line)}
.example .body{flex:1;min-width:0}
@media (max-width:520px){.example{flex-direction:column}.example img{width:100%;border-radius:0}}
.example .body{padding:12px 16px 14px}
.example ol{list-style:none;margin:0;padding:0}
.example li{padding:5px 0;border-bottom:1px solid var(--line);font-size:.93rem;line-height:1.4}
.example li:last-child{border-bottom:0}
.example .who{display:flex;justify-content:space-between;gap:10px;color:var(--soft);font-size:.76rem}
.example .odd{text-decoration:underline dotted var(--c4);text-underline-offset:3px}
details{margin-top:8px}summary{cursor:pointer;color:var(--soft);font-size:.84rem}
details ul{margin:.4em 0 0;padding-left:1.1em;font-size:.88rem}
sub{line-height:0}.narrow{display:none}
@media (max-width:640px){.wide{display:none}.narrow{display:inline}
table{font-size:.82rem}th{font-size:.74rem}th,td{padding:6px 4px}
.card{padding:12px 12px}main{padding:22px 14px 48px}
td:first-child{white-space:normal}}
code{font:.84em ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;margin:0}
.split{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:16px;align-items:start}
"""
)

# Pointing at a row of anything fades the other rows everywhere.
SCRIPT = """
const all=[...document.querySelectorAll('[data-row]')];
const fade=row=>all.forEach(e=>{e.style.opacity=row===null||e.dataset.row===row?1:.13});
for(const e of all){e.addEventListener('pointerenter',()=>fade(e.dataset.row));
e.addEventListener('pointerleave',()=>fade(null))}
"""
