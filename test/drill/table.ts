/**
 * Judges what a drill has seen, and shows it as a table.
 *
 * 1. The servers' own count decides: fewer calls than the kind has are lost, more are doubled. Where nobody knows how a
 *    run goes on, it is stuck.
 */

/** One run of a drill, from its pause to its end. */
export interface Seen {
  readonly id: string;
  readonly kind: string;
  /** The build that had it when it was answered; undefined if it never was. */
  readonly answeredOn: 'old' | 'new' | undefined;
  readonly isOver: boolean;
  readonly executed: number;
  readonly expected: number;
  /** What else is not there. */
  readonly lost: string | undefined;
}

export interface Row {
  readonly kind: string;
  readonly runs: number;
  readonly old: number;
  readonly new: number;
  readonly executed: number;
  readonly expected: number;
  readonly lost: number;
  readonly doubled: number;
  readonly stuck: number;
}

export interface Verdict {
  readonly rows: readonly Row[];
  readonly total: Row;
  /** A line for each run that is not as it must be. */
  readonly faults: readonly string[];
}

function isStuck({ isOver }: Seen): boolean {
  return !isOver;
}

function isDoubled({ executed, expected }: Seen): boolean {
  return executed > expected;
}

function isLost(seen: Seen): boolean {
  // The calls of a run that is stuck may still come.
  return seen.isOver && (seen.executed < seen.expected || seen.lost !== undefined);
}

export function judge(seen: readonly Seen[]): Verdict {
  const kinds = [...new Set(seen.map(({ kind }) => kind))];
  const faults = seen.flatMap((run) => {
    const { id, executed, expected, lost } = run;
    const count = `${executed} of ${expected} calls`;
    return [
      ...(isStuck(run) ? [`${id} is stuck: ${count}`] : []),
      ...(isDoubled(run) ? [`${id} is doubled: ${count}`] : []),
      ...(isLost(run) ? [`${id} is lost: ${lost ?? count}`] : []),
    ];
  });
  return {
    rows: kinds.map((kind) =>
      rowOf(
        kind,
        seen.filter((run) => run.kind === kind),
      ),
    ),
    total: rowOf('all', seen),
    faults,
  };
}

function rowOf(kind: string, seen: readonly Seen[]): Row {
  const sum = (of: (run: Seen) => number): number => seen.reduce((all, run) => all + of(run), 0);
  const count = (fits: (run: Seen) => boolean): number => seen.filter(fits).length;
  return {
    kind,
    runs: seen.length,
    old: count(({ answeredOn }) => answeredOn === 'old'),
    new: count(({ answeredOn }) => answeredOn === 'new'),
    executed: sum(({ executed }) => executed),
    expected: sum(({ expected }) => expected),
    lost: count(isLost),
    doubled: count(isDoubled),
    stuck: count(isStuck),
  };
}

const COLUMNS = {
  'waits for': 'kind',
  runs: 'runs',
  'answered on old': 'old',
  'on new': 'new',
  'calls executed': 'executed',
  expected: 'expected',
  lost: 'lost',
  doubled: 'doubled',
  stuck: 'stuck',
} as const satisfies Readonly<Record<string, keyof Row>>;

export function tableOf({ rows, total }: Verdict): string {
  const lines = [
    Object.keys(COLUMNS),
    ...[...rows, total].map((row) => Object.values(COLUMNS).map((column) => String(row[column]))),
  ];
  const widths = Object.keys(COLUMNS).map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  return lines
    .map((line) => line.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))))
    .map((line) => `${line.join('  ').trimEnd()}\n`)
    .join('');
}
