package results

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep/results/resultstest"
	"workbench/model/testfile"
)

// browser returns the command of a browser that runs without a screen, or skips
// the test.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no chromium here: what the page does in a browser is not tested")
	return ""
}

// seen is what the script below finds on the page.
type seen struct {
	Errors    []string
	Ready     string
	Canvases  int
	Overflow  bool
	Hidden    []string
	AllRows   int
	Pager     string
	Failed    string
	FailedRow []string
	Sorted    []float64
	SortedUp  []float64
	OneCase   string
	Dialog    bool
	Command   string
	Facts     string
	Closed    string
	Cases     []string
	Methods   []string
	Without   []string
	Filtered  int
	Chart     string
	Legends   []string
	Searched  string
	Next      string
	Aria      string
	Headless  []string
	Focus     []string
}

// steps are what a reader does. They are added to the page behind its script.
const steps = `
(async () => {
  const wait = () => new Promise(done => setTimeout(done, 60));
  // The clock of the page is not that of the machine: it jumps where nothing is to do here. A link is followed by
  // another process, so that waiting for it takes work: where that one gets little of the machine, so does this.
  const work = () => { for (let k = 0; k < 2e7; k++); };
  const until = async done => { for (let k = 0; k < 500 && !done(); k++) { work(); await wait(); } return done(); };
  const go = async hash => { location.hash = hash; await wait(); };
  const all = (sel, of = document) => [...of.querySelectorAll(sel)];
  const s = {Ready: document.documentElement.dataset.ready};
  try {
    s.Canvases = all("canvas").length;
    s.Overflow = document.documentElement.scrollWidth > innerWidth;
    s.Hidden = all(".scroll").filter(e => e.scrollWidth > e.clientWidth).map(e => e.querySelector("thead").textContent + ", " + e.scrollWidth + " of " + e.clientWidth);
    const table = document.querySelector("#runs-table table"), count = () => document.querySelector("#runs-filter .count").textContent;
    s.AllRows = table.tBodies[0].rows.length;
    s.Pager = document.querySelector("#runs-table .pager .count").textContent;
    all("#runs-table .pager button")[1].click();
    s.Next = document.querySelector("#runs-table .pager .count").textContent;
    await go("#runs?p=0&w=failed");
    s.Failed = count();
    s.FailedRow = [...table.tBodies[0].rows].map(r => r.cells[6].textContent);
    await go("#runs?p=0&s=-gap");
    const gap = [...table.tHead.rows[0].cells].findIndex(h => h.textContent === "gap");
    const gaps = () => [...table.tBodies[0].rows].map(r => r.cells[gap].textContent === "–" ? -1 : parseFloat(r.cells[gap].textContent));
    s.Sorted = gaps();
    all("th button", table).find(b => b.textContent === "gap").click();
    s.SortedUp = gaps();
    s.Aria = table.tHead.rows[0].cells[gap].getAttribute("aria-sort");
    await go("#runs?p=0&c=4");
    s.OneCase = count();
    const search = document.querySelector("#runs-filter input[type=search]");
    await go("#runs");
    search.value = "net003 floating";
    search.dispatchEvent(new Event("change"));
    await wait();
    s.Searched = count();
    await go("#run=7");
    const dialog = document.getElementById("detail");
    s.Dialog = dialog.open;
    s.Command = dialog.querySelector("pre").textContent;
    s.Facts = dialog.querySelector("dl").textContent;
    all("button", dialog).find(b => b.textContent === "close").click();
    await wait();
    s.Closed = dialog.open + " " + location.hash;
    const cases = document.querySelector(".cases"), find = cases.querySelector("input");
    find.value = "net003";
    find.dispatchEvent(new Event("input"));
    s.Cases = [...cases.querySelector("tbody").rows].map(r => r.cells[0].textContent);
    const methods = document.querySelector(".problem table.sortable");
    const worst = name => {
      const head = [...methods.tHead.rows[0].cells].find(c => c.textContent === name);
      head.querySelector("button").click();
      head.querySelector("button").click();
      return [...methods.tBodies[0].rows].map(r => r.cells[0].textContent);
    };
    s.Without = worst("no plan");
    s.Methods = worst("failed");
    const findings = document.querySelector("#nights .filter input");
    findings.value = "persistent net004";
    findings.dispatchEvent(new Event("input"));
    s.Filtered = [...document.querySelectorAll("#nights table")[1].tBodies[0].rows].filter(r => !r.hidden).length;
    const choose = document.querySelector(".tradeoff select");
    choose.value = "2";
    choose.dispatchEvent(new Event("change"));
    s.Legends = all(".figures .chart:first-child .u-legend .u-label").map(e => e.textContent);
    s.Chart = document.querySelector(".tradeoff h4").textContent;
    // By keys: what has the focus is what was pressed, or what comes of it.
    const press = e => { e.focus(); e.click(); return document.activeElement; };
    s.Headless = all("th:not(.u-legend th)").filter(th => !th.querySelector("button")).map(th => th.textContent);
    await go("#runs?p=0");
    s.Focus = [];
    const [back, next] = all("#runs-table .pager button"), sort = all("th button", table)[3];
    if (press(sort) !== sort) s.Focus.push("sorting");
    if (press(back) === back && !back.disabled) s.Focus.push("a page before the first");
    while (!next.disabled) press(next);
    if (document.activeElement !== back) s.Focus.push("the last page");
    while (!back.disabled) press(back);
    if (document.activeElement !== next) s.Focus.push("the first page");
    const curve = document.querySelector(".u-legend .u-series:nth-child(2)");
    curve.querySelector("th").focus();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
    if (document.activeElement !== curve.querySelector("th") || !curve.classList.contains("u-off")) s.Focus.push("a curve of a figure");
    const run = table.querySelector("tbody a");
    press(run);
    if (!await until(() => dialog.open && dialog.contains(document.activeElement))) s.Focus.push("into the dialog");
    press(all("button", dialog).find(b => b.textContent === "close"));
    if (!await until(() => !dialog.open && document.activeElement === run)) s.Focus.push("out of the dialog");
  } catch (e) { errors.push(String(e)); }
  s.Errors = errors;
  document.body.dataset.seen = btoa(unescape(encodeURIComponent(JSON.stringify(s))));
})();`

const watch = `<script>const errors = []; addEventListener("error", e => errors.push(e.message)); addEventListener("securitypolicyviolation", e => errors.push("refused: " + e.violatedDirective));</script>`

// A reader's morning, in a wide and in a narrow window.
func TestInABrowser(t *testing.T) {
	testfile.Long(t)
	chromium := browser(t)
	size := resultstest.Size{Instances: 14, Limits: 4, Repetitions: 2}
	old, n := madeNight(size, "a", 1), madeNight(size, "b", 2)
	for _, r := range n.Rows {
		if r.Task.Method == "persistent" {
			*r.Result.Objective *= 1.02
		}
	}
	for _, r := range n.Rows {
		if r.Task.Method == "optimum" {
			r.Result.Status, r.Result.Objective, r.Result.Error = solve.Limit, nil, "for the test"
		}
	}
	c, err := Compare(old, n, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	r := NewReport(n, c)
	text := page(t, r)
	text = strings.Replace(text, "<head>", "<head>"+watch, 1)
	text = strings.Replace(text, "</body>", "<script>"+steps+"</script></body>", 1)
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, window := range []string{"1400,900", "1200,900", "500,900"} {
		t.Run(window, func(t *testing.T) {
			s := look(t, chromium, file, window)
			if len(s.Errors) > 0 || s.Ready != "yes" {
				t.Fatalf("ready %q, errors %v", s.Ready, s.Errors)
			}
			total := len(n.Rows)
			check := func(what string, got, want any) {
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			check("figures", s.Canvases, 5) // one of them on the first screen
			check("page wider than the window", s.Overflow, false)
			if window == "1200,900" {
				check("columns behind the edge", s.Hidden, []string{})
			}
			check("rows of a page", s.AllRows, 100)
			check("pager", s.Pager, fmt.Sprintf("1 to 100 of %d", total))
			check("next page", s.Next, fmt.Sprintf("101 to 200 of %d", total))
			check("failed", s.Failed, fmt.Sprintf("%d of %d", r.Failed, total))
			for _, o := range s.FailedRow {
				if !slices.Contains([]string{"memory", "crashed"}, o) {
					t.Errorf("%q among the failed", o)
				}
			}
			if !slices.IsSortedFunc(s.Sorted, func(a, b float64) int { return int(1e6 * (b - a)) }) || s.Sorted[0] < 10 {
				t.Errorf("not sorted, the largest first: %v", s.Sorted)
			}
			if !slices.IsSorted(s.SortedUp) || s.SortedUp[0] != 0 {
				t.Errorf("not sorted: %v", s.SortedUp)
			}
			check("sorted, as a screen reader hears it", s.Aria, "ascending")
			check("columns that no key sorts", s.Headless, []string{})
			check("focus is lost by", s.Focus, []string{})
			check("one case", s.OneCase, fmt.Sprintf("12 of %d, of one case", total))
			check("search", s.Searched, fmt.Sprintf("8 of %d", total))
			check("dialog", s.Dialog, true)
			check("command", s.Command, r.runs[7].Command())
			if !strings.Contains(s.Facts, r.runs[7].ID) || !strings.Contains(s.Facts, r.runs[7].Case.Instance) {
				t.Errorf("facts %q", s.Facts)
			}
			check("closed", s.Closed, "false #runs?q=net003+floating")
			check("cases", s.Cases, []string{"net003", "net003", "net003", "net003"})
			check("methods by runs without a plan", s.Without[:2], []string{"optimum", "revolve"})
			check("methods by failures", s.Methods[:1], []string{"chain-milp"})
			check("findings of one instance", s.Filtered, 4)
			// A method without any plan is in the figures, too.
			check("legend", s.Legends, []string{"gap of at most", "revolve", "persistent", "floating", "optimum", "chain-milp"})
			check("trade-off", s.Chart, "net002")
		})
	}
}

// look runs the page in a window and returns what its steps saw.
func look(t *testing.T, chromium, file, window string) (s seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dom, err := exec.CommandContext(ctx, chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir="+t.TempDir(),
		"--window-size="+window, "--virtual-time-budget=120000", "--dump-dom", "file://"+file).Output()
	if err != nil {
		t.Skipf("the browser does not run here: %v", err)
	}
	m := regexp.MustCompile(`data-seen="([^"]*)"`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the steps did not come to their end, in %d bytes of page", len(dom))
	}
	data, err := base64.StdEncoding.DecodeString(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
