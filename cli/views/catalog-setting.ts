/**
 * Describes a tool's settings, its effective verdict and its definition.
 *
 * 1. A definition is its server's text. It is shown whole, escaped, and with a bar before every line, so that no text
 *    of a server can pass for ours.
 */
import type { EffectiveVerdict } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import type {
  CatalogEntry,
  CatalogSnapshot,
  PendingChange,
  ToolChange,
  ToolSetting,
} from '../../contracts/schemas/catalog.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { ApproverList } from '../../contracts/schemas/policy.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { FieldDifference } from '../../domain/catalog/discovery.ts';
import { changedSetting } from '../../domain/catalog/settings.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { describeRule } from '../../domain/policy/approvers.ts';
import { named, visible } from '../../domain/text/escape.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import type { Paint } from '../session/terminal.ts';
import { count, duration, fields, short, shortInstant, shortName, timeLeft } from './format.ts';

export function settingText({ enabled, requiresApproval, denied, approvers, deadlineSeconds }: ToolSetting): string {
  const said = [...(enabled ? [] : ['disabled']), ...(denied ? ['denied'] : []), ...(requiresApproval ? ['asks'] : [])];
  return [
    // Without a setting, only the organisation's policy decides.
    ...(said.length > 0 ? said : ['open']),
    ...(approvers === undefined ? [] : [approversText(approvers)]),
    ...(deadlineSeconds === undefined ? [] : [`within ${duration(deadlineSeconds * 1_000)}`]),
  ].join(', ');
}

function approversText({ ids, groups, need, notInitiator, may, remember }: ApproverList): string {
  const not = notInitiator === true ? ['the initiator'] : undefined;
  const clause = { layer: 'catalog', ids, groups, ...defined({ need, not, may, remember }) } as const;
  return visible(describeRule({ allOf: [clause] }));
}

/** Says whether the server has the tool, and whether the definition has changed since an operator looked. */
export function statusText(entry: CatalogEntry): string {
  return hasDrifted(entry) ? `${entry.status}, changed` : entry.status;
}

export function verdictText(verdict: EffectiveVerdict | undefined): string {
  if (verdict?.kind !== 'ask') return verdict?.kind ?? '';
  const { approvers, deadlineSeconds } = verdict;
  const who = approvers === undefined ? 'whoever starts the run' : visible(describeRule(approvers));
  return `ask ${who}, ${duration(deadlineSeconds * 1_000)}`;
}

export function reasonText(verdict: EffectiveVerdict | undefined): string {
  return (verdict?.rules ?? []).map(visible).join(', ');
}

/** Shows a waiting change and how to agree to it, with all that its digest covers and a person can judge. */
export function pendingText(
  { tenant, server, entries }: Pick<CatalogSnapshot, 'tenant' | 'server' | 'entries'>,
  { changeId, digest, by, openedAt, deadline, trusted, changes }: PendingChange,
  now: number,
  paint: Paint,
): string {
  const lines = changes.map((change) => `    ${changeText(entries, change)}`);
  const rows = [
    ['asked by', `${visible(by.id)} at ${shortInstant(openedAt)}`],
    ['until', `${shortInstant(deadline)}, ${timeLeft(deadline, now)}`],
    ['digest', digest],
    ['trusts the server', trusted === undefined ? undefined : trusted ? 'yes' : 'no'],
  ] as const;
  const next = `Agree: countersign catalog approve ${visible(server)} ${visible(changeId)} --tenant ${shellWord(tenant)} --as ID --digest ${digest}`;
  return [
    `${paint('bold', visible(changeId))}  ${paint('yellow', 'waits for a second administrator')}, ${count(changes.length, 'tool')}`,
    fields(paint, rows),
    ...lines,
    paint('dim', next),
  ].join('\n');
}

function changeText(entries: CatalogSnapshot['entries'], change: ToolChange): string {
  const { tool, acknowledge } = change;
  const entry = entries.find(({ name }) => name === tool);
  const notice = acknowledge === undefined ? '' : `, definition ${short(acknowledge)} acknowledged`;
  if (entry === undefined) return `${shortName(tool)}: is not in the catalog any more`;
  return `${shortName(tool)}: ${settingText(entry.setting)} → ${settingText(changedSetting(entry.setting, change))}${notice}`;
}

const BAR = '│';

export function definitionText(definition: ToolDefinition, paint: Paint): string {
  const { title, description, inputSchema, outputSchema, annotations } = definition;
  const parts: readonly (readonly [string, JsonValue | undefined])[] = [
    ['title', title],
    ['description', description],
    ['input', inputSchema],
    ['output', outputSchema],
    ['annotations', annotations],
  ];
  const lines = parts.flatMap(([label, value]) =>
    value === undefined ? [] : [`  ${paint('dim', label)}`, ...linesOf(value).map((line) => `  ${BAR} ${line}`)],
  );
  return lines.join('\n');
}

export interface ToolDiff {
  readonly entry: CatalogEntry;
  readonly differences: readonly FieldDifference[];
}

export function diffText({ entry, differences }: ToolDiff, paint: Paint): string {
  const { name, acknowledged, definition } = entry;
  const from = acknowledged === undefined ? 'nothing was acknowledged' : `acknowledged ${acknowledged.hash}`;
  const shown = differences.map(({ path, before, after }) =>
    [
      `  ${paint('dim', 'at')} ${BAR} ${paint('bold', visible(path))}`,
      ...(before === undefined ? [] : linesOf(before).map((line) => `  ${paint('red', `- ${BAR} ${line}`)}`)),
      ...(after === undefined ? [] : linesOf(after).map((line) => `  ${paint('green', `+ ${BAR} ${line}`)}`)),
    ].join('\n'),
  );
  const head = `${paint('bold', named(name))}\n  ${paint('dim', from)}\n  ${paint('dim', `now ${definition.hash}`)}`;
  return [head, ...(shown.length > 0 ? shown : ['  nothing has changed'])].join('\n');
}

/** Keeps the lines of a text; any other value becomes JSON on several lines. */
function linesOf(value: JsonValue): string[] {
  const text = typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);
  return text.split(/\r?\n/).map((line) => line.split('\t').map(visible).join('    '));
}
