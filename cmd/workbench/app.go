package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/model/allocator"
	"workbench/model/instance/layout"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Exit statuses, as documented in the README.
const (
	exitOK         = 0
	exitInternal   = 1
	exitUsage      = 2
	exitInfeasible = 3
	exitNoPlan     = 4
	exitInvalid    = 5
	// Tasks of a sweep failed, or have no row yet where its state is asked for.
	exitTasksFailed = 6
	// What shells say of a program that Ctrl-C ended: what it had by then is printed.
	exitInterrupted = 130
)

// streams are what a run of the program may read and write.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// usageError is a mistake in what the user typed or gave: exit status 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitError carries an exit status for an error that was already printed in
// full, as the report of verify.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// pythonInterface is the version of flags, files and results that pytorch/workbench_torch/_binary.py asks for.
// It changes with them.
const pythonInterface = 2

// runApp is the program: args as in os.Args, the exit status as result. It never
// panics through: a bug ends with status 1 and a line that says so.
func runApp(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(errw, "workbench: internal error: %v: please report it with this command line and the trace below\n%s", r, debug.Stack())
			code = exitInternal
		}
	}()
	checked := &checkedWriter{w: out}
	app := newApp(streams{in, checked, errw})
	ordered, err := reorder(app, wish(args))
	if len(ordered) < 2 || strings.HasPrefix(ordered[1], "-") {
		app.Version = fmt.Sprintf("%s interface %d", sweep.Version(), pythonInterface) // may read the whole program, so not for every command
	}
	if err == nil {
		err = app.RunContext(ctx, ordered)
	}
	if err == nil && checked.err != nil {
		err = fmt.Errorf("results cannot be written: %w", checked.err)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.Is(err, errStopped) {
		err = fmt.Errorf("%w before any result was available", errStopped)
	}
	code = report(errw, err)
	if ctx.Err() != nil && (code == exitOK || code == exitNoPlan || errors.Is(err, errStopped)) {
		return exitInterrupted
	}
	return code
}

// errStopped is wrapped by what an interruption left unfinished.
var errStopped = errors.New("stopped")

// wish turns "help COMMAND" into "COMMAND --help", which is the same to a person.
func wish(args []string) []string {
	if len(args) > 1 && args[1] == "help" {
		return append(append(args[:1:1], args[2:]...), "--help")
	}
	return args
}

// checkedWriter keeps the first error of writing to w, which nobody else looks
// at: a result that does not arrive is no success.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// report prints err as one line and returns its exit status.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if printed, ok := errors.AsType[*exitError](err); ok {
		return printed.code
	}
	fmt.Fprintf(w, "workbench: %s\n", render.OneLine(err.Error()))
	return exitCode(err)
}

func exitCode(err error) int {
	var infeasible *plan.Infeasible
	var usage *usageError
	var unwritable *atomicfile.UnwritableError
	var invalid *solve.InvalidPlanError
	switch {
	case errors.As(err, &infeasible):
		return exitInfeasible
	case errors.As(err, &invalid), errors.Is(err, allocator.ErrInvalid), errors.Is(err, layout.ErrCheck):
		return exitInvalid
	case errors.As(err, &usage), errors.As(err, &unwritable), errors.Is(err, solve.ErrInput), errors.Is(err, solvers.ErrOption),
		errors.Is(err, solvers.ErrUnsupported), errors.Is(err, solvers.ErrMissing):
		return exitUsage
	case errors.Is(err, plan.ErrNoPlan):
		return exitNoPlan
	}
	return exitInternal
}

// newApp builds the command line. Commands print results to s.out and nothing else there.
func newApp(s streams) *cli.App {
	app := &cli.App{
		Name:  "workbench",
		Usage: "plans for training networks that do not fit in GPU memory, verified and compared with proven bounds",
		UsageText: "workbench COMMAND [INSTANCE] [flags]\n\nINSTANCE is a file, - for standard input, or " +
			"zoo:NAME[?batch=8&image=224].\nRun workbench COMMAND --help for the flags of a command.",
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\n" + exitHelp(),
		HideHelpCommand:       true,
		Reader:                s.in,
		Writer:                s.out,
		ErrWriter:             s.err,
		// Errors are mapped to exit statuses by report alone.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		Commands: []*cli.Command{
			newPlan(s), newSolve(s), newCompare(s), newCurve(s), newBudget(s), newVerify(s), newShow(s),
			newProblems(s), newMethods(s), newZoo(s), newImport(s),
			newFormulation(s), newFragmentation(s), newPlace(s), newStages(s), newExport(s), newBench(s),
			newDoctor(s), newVersion(s), newCompletion(s),
		},
	}
	app.Commands = append(app.Commands, newComplete(s, func() *cli.App { return app }))
	app.Action = refuseUnknown("command", app.Commands)
	for _, c := range app.Commands {
		finish(c)
	}
	return app
}

// finish gives every command what all have in common.
func finish(c *cli.Command) {
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	for _, sub := range c.Subcommands {
		finish(sub)
	}
	if len(c.Subcommands) > 0 && c.Action == nil {
		c.Action = refuseUnknown("subcommand", c.Subcommands)
	}
}

// refuseUnknown is the action of what only groups commands: shows help without
// arguments, else refuses the first, suggesting the nearest command.
func refuseUnknown(what string, cmds []*cli.Command) cli.ActionFunc {
	var names []string
	for _, cmd := range cmds {
		if !cmd.Hidden {
			names = append(names, cmd.Name)
		}
	}
	return func(c *cli.Context) error {
		switch {
		case c.Args().Present():
			return usagef("unknown %s %q: %s", what, c.Args().First(), nearest.Hint(c.Args().First(), names))
		case what == "subcommand":
			return cli.ShowSubcommandHelp(c)
		}
		_, err := fmt.Fprint(c.App.Writer, frontPage)
		return err
	}
}

func onUsageError(_ *cli.Context, err error, _ bool) error {
	// The flag package says: invalid value "x" for flag -threads: parse error.
	msg := err.Error()
	var val, rest string
	if n, _ := fmt.Sscanf(msg, "invalid value %q for flag -%s", &val, &rest); n == 2 {
		return usagef("--%s %q: an integer is needed", strings.TrimSuffix(rest, ":"), val)
	}
	if n, _ := fmt.Sscanf(msg, "invalid boolean value %q for -%s", &val, &rest); n == 2 {
		return usagef("--%s takes no value, %q was given", strings.TrimSuffix(rest, ":"), val)
	}
	return usagef("%s", strings.ReplaceAll(msg, "flag needs an argument: -", "a value is needed after --"))
}

// common are the flags of every command.
type common struct {
	format, logLevel string
	quiet            bool
	log              *slog.Logger // as they say
	formats          []string     // nil: text and json
}

func (o *common) flags() []cli.Flag {
	return []cli.Flag{
		stringFlag("output", "format", &o.format, "text", "`FORMAT` of the output: text or json"),
		boolFlag("output", "quiet, q", &o.quiet, "no progress and no remarks, only results and errors"),
		stringFlag("output", "log-level", &o.logLevel, "warn",
			"minimum `LEVEL` of log lines on standard error: debug, info, warn or error; debug includes the solver's own log"),
	}
}

// action is what a command does once its common flags and the number of its arguments
// are right: usage is for the error that says which are.
func (o *common) action(s streams, least, most int, usage string, do func(*cli.Context, []string) error) cli.ActionFunc {
	return withArgs(least, most, usage, func(c *cli.Context, a []string) error {
		if err := o.check(s); err != nil {
			return err
		}
		return do(c, a)
	})
}

// withArgs is [common.action] of a command without the common flags.
func withArgs(least, most int, usage string, do func(*cli.Context, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		a, err := args(c, least, most, usage)
		if err != nil {
			return err
		}
		return do(c, a)
	}
}

// check validates the common flags and makes the logger they ask for.
func (o *common) check(s streams) error {
	formats := o.formats
	if formats == nil {
		formats = []string{"text", "json"}
	}
	if !slices.Contains(formats, o.format) {
		return usagef("--format %q: %s", o.format, nearest.Hint(o.format, formats))
	}
	var level slog.Level
	switch o.logLevel {
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
			return err
		}
	default:
		return usagef("--log-level %q: %s", o.logLevel, nearest.Hint(o.logLevel, []string{"debug", "info", "warn", "error"}))
	}
	if o.quiet {
		level = max(level, slog.LevelError)
	}
	o.log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
	return nil
}

func (o *common) json() bool { return o.format == "json" }

// print writes v to w as JSON where --format says so, else as text writes it. format is that of the JSON, "" where v has it itself.
func (o *common) print(w io.Writer, format string, v any, text func(io.Writer)) error {
	switch {
	case !o.json():
		text(w)
		return nil
	case format == "":
		return writeJSON(w, v)
	}
	return render.Document(w, format, v)
}

// args checks the number of positional arguments.
func args(c *cli.Context, least, most int, usage string) ([]string, error) {
	a := c.Args().Slice()
	if len(a) < least || len(a) > most {
		return nil, usagef("%s: got %s; usage: workbench %s", c.Command.HelpName[len("workbench "):], platform.Count(len(a), "argument"), usage)
	}
	for _, x := range a {
		if x == "" {
			return nil, usagef("%s: an argument is empty; usage: workbench %s", c.Command.HelpName[len("workbench "):], usage)
		}
	}
	return a, checkDistinctFiles(c, a)
}

// checkDistinctFiles refuses to write a file over one that the command reads, or over another that it writes.
func checkDistinctFiles(c *cli.Context, args []string) error {
	read := slices.DeleteFunc(slices.Clone(args), func(x string) bool { _, err := os.Stat(x); return err != nil }) // zoo:NAME
	for _, f := range c.Command.Flags {
		s, ok := f.(*cli.StringFlag)
		if !ok || !c.IsSet(s.Name) || !strings.Contains(s.Usage, "`FILE`") {
			continue
		}
		if s.Category == "output" && atomicfile.Same(c.String(s.Name), read...) {
			return usagef("--%s %s: that file is read, or written for another flag; it needs a name of its own", s.Name, c.String(s.Name))
		}
		read = append(read, c.String(s.Name))
	}
	return nil
}
