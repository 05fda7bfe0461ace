/** Implements `countersign requests`, which lists what waits for a decision, in one run or in all. */
import type { Inbox, Retry } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import type { ApprovalRequest, Approver, AuthorizationPause, Pause } from '../../contracts/schemas/request.ts';
import { ruleAt } from '../../domain/policy/approvers.ts';
import { permittedTo } from '../../domain/request/permitted.ts';
import { visible } from '../../domain/text/escape.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { nothingOf, toldOrRead } from '../session/stuck-run.ts';
import type { Paint } from '../session/terminal.ts';
import { type Answer, verb } from '../session/verb.ts';
import { lastWord, shellWord } from '../../domain/text/shell-word.ts';
import { memoToolText, names, table, timeLeft } from '../views/format.ts';
import { stuckAnswer } from '../views/recovery.ts';
import { requestText, shownTo } from '../views/request.ts';
import { retryText } from '../views/run.ts';

export const REQUESTS = verb({
  name: 'requests',
  summary: 'list what waits for a decision, in one run or in all',
  description:
    'List what waits for a decision: of one run in full; without a run id, of all runs, the first deadline first',
  args: { run: option.maybe('run id') },
  options: {
    full: option.flag('show all text, however long'),
    reveal: option.flag('show arguments that policy keeps out of lists: look at them before you decide'),
    tenant: option.text('<name>', 'only runs of this tenant'),
    as: option.text(
      '<id>',
      'only runs that wait for this person, by id or by a group named with --group; of one run: whose command to print',
    ),
    group: option.several('<name>', 'only runs that wait for this group'),
    most: option.wholeNumber('<count>', 'runs at the most, those with the first deadlines (default: 100)'),
  },
  examples: [
    'requests',
    'requests --as ben --group finance',
    'requests --group ops',
    'requests nightly-42 --full',
    'requests nightly-42 --json',
  ],
  run: async ({ args: { run }, options, session }) => {
    const { tenant, as, group, most } = options;
    const approver = as === undefined && group === undefined ? undefined : defined({ id: as, groups: group });
    return await session(async (opened) =>
      run === undefined
        ? inboxAnswer(await opened.countersign.inbox(defined({ tenant, approver, most })), approver !== undefined)
        : await requestsOf(opened, run, options),
    );
  },
});

interface Showing {
  readonly full?: true;
  readonly reveal?: true;
  readonly as?: string;
  readonly group?: readonly string[];
}

export function inboxAnswer(inbox: Inbox, isFiltered: boolean): Answer {
  const now = Date.now();
  const { runs, more, unread } = inbox;
  return {
    json: inbox,
    text: (paint) => {
      if (runs.length + more + unread.length === 0)
        return isFiltered ? 'No run waits for them.' : 'No run waits for a decision.';
      const rows = runs.map(({ runId, pending }) => [
        visible(runId),
        String(pending.count),
        pending.nextDeadline === undefined ? '' : timeLeft(pending.nextDeadline, now),
        `${pending.requests.map(({ callId, server, tool, reminded, about }) => `${visible(callId)} ${memoToolText(server, tool)}${about === undefined ? '' : ` (${about})`}${reminded === true ? ' (reminded)' : ''}`).join(', ')}${pending.truncated ? ', …' : ''}`,
      ]);
      const listed = runs.length === 0 ? [] : [table(paint, [['RUN', 'WAITING', 'FIRST DEADLINE', 'CALLS'], ...rows])];
      const first = runs[0]?.runId ?? unread[0] ?? '';
      const next = first === '' ? [] : [paint('dim', `Read one in full: countersign requests ${lastWord(first)}`)];
      return [...listed, ...unlisted(inbox, paint), ...next].join('\n\n');
    },
  };
}

const MOST_NAMED = 5;

function unlisted({ runs, more, unread, isWhole }: Inbox, paint: Paint): readonly string[] {
  const warning = paint('yellow', 'warning');
  const all = runs.length + more;
  const notes: string[] = [];
  if (more > 0) notes.push(`${more} more wait, with later deadlines. List all: repeat this with --most ${all}`);
  if (unread.length > 0)
    notes.push(
      `${warning}  ${unread.length} more wait, and are not listed: what they say cannot be read here. A key of encryption.keys is missing, or another version wrote it: ${names(unread, MOST_NAMED)}`,
    );
  if (!isWhole)
    notes.push(
      `${warning}  Only the newest ${all + unread.length} were looked at: older ones may have earlier deadlines. Narrow the list: --tenant, --as, --group`,
    );
  return notes;
}

/** Reads the requests of one run. For a stuck run they come from its history, and none of them can be decided now. */
async function requestsOf(session: Session, runId: string, options: Showing): Promise<Answer> {
  const run = session.countersign.run(runId);
  const { told, stuck } = await toldOrRead(session, runId, async () => ({
    requests: await run.requests(),
    retries: await run.retries(),
  }));
  if (stuck === undefined) return requestsAnswer(runId, told.requests, options, told.retries);
  const { requests } = stuck.answers;
  if (requests === undefined) throw nothingOf(stuck, 'the requests');
  const { json, texts, first } = shownRequests(runId, requests, options);
  const none =
    first === undefined ? ['Nothing waits in the part that could be read. Later requests are not shown.'] : [];
  return stuckAnswer(stuck, json, (paint) => [...texts(paint), ...none]);
}

export function requestsAnswer(
  runId: string,
  requests: readonly ApprovalRequest[],
  options: Showing,
  retries: readonly Retry[] = [],
): Answer {
  const { json, texts, first, now } = shownRequests(runId, requests, options);
  return {
    json: { ...json, ...(retries.length === 0 ? {} : { retries }) },
    text: (paint) => {
      const none = first === undefined ? [`Nothing of run ${visible(runId)} waits for a decision.`] : [];
      const shown = [...texts(paint), ...none];
      const tried = retries.map((each) => `Tried again: ${retryText(each)}`);
      if (first === undefined) return [...shown, ...tried].join('\n\n');
      const { what, name, words } = answering(first.about);
      const next = `${what}: countersign ${name} ${shellWord(runId)} ${shellWord(first.callId)}${words} --as ${deciderOf(first, options, now)} --digest ${visible(first.digest)}`;
      return [...shown, ...tried, paint('dim', next)].join('\n\n');
    },
  };
}

/** Names the asker, or somebody of the rule, if the run would take their word now; and the group by which. */
function deciderOf(request: ApprovalRequest, { as, group = [] }: Showing, now: number): string {
  const rule = ruleAt(request.approvers, now - Date.parse(request.openedAt));
  const inGroups = (id: string, groups: readonly string[]): string =>
    [shellWord(id), ...groups.map((each) => `--group ${shellWord(each)}`)].join(' ');
  const candidates = [
    ...(as === undefined ? [] : [{ id: as, groups: [...group] }]),
    ...rule.allOf.flatMap(({ ids }) => ids.map((id) => ({ id, groups: [] }))),
  ];
  const found = candidates.find((person) => mayAgree(request, person, now));
  if (found !== undefined) return inGroups(found.id, found.groups);
  return inGroups('YOU', rule.allOf.flatMap(({ groups }) => groups).slice(0, 1));
}

function mayAgree(request: ApprovalRequest, person: Approver, now: number): boolean {
  const permitted = permittedTo(request, person, now);
  return permitted.has('approve') || permitted.has('answer');
}

function shownRequests(runId: string, requests: readonly ApprovalRequest[], options: Showing) {
  const now = Date.now();
  const [full, reveal] = [options.full === true, options.reveal === true];
  const open = requests.filter(({ status }) => status === 'open');
  const others = requests.filter(({ status }) => status !== 'open');
  return {
    now,
    first: open[0],
    json: { runId, requests: requests.map((request) => shownTo(request, reveal)) },
    texts: (paint: Paint): readonly string[] =>
      [...open, ...others].map((request) => requestText(request, { full, reveal, now }, paint)),
  };
}

/** The words of a command line. They contain no text from a server, since people copy the line into a shell. */
function answering(about: Pause | undefined): Readonly<Record<'what' | 'name' | 'words', string>> {
  if (about === undefined) return { what: 'Decide', name: 'approve', words: '' };
  switch (about.kind) {
    case 'outcome':
      return { what: 'Say what became of it', name: 'resolve', words: ' retry|succeeded|failed' };
    case 'input':
      return { what: 'Answer the server', name: 'answer', words: ' --set FIELD=VALUE|--accept|--decline' };
    case 'authorization':
      return { what: 'Give what it wants', name: 'authorize', words: ` ${givingOf(about)}|--decline REASON` };
  }
}

function givingOf({ wants, scopes }: AuthorizationPause): string {
  if (wants === 'grant') return '--ref REF|--grant-file FILE';
  return scopes === undefined ? '--again' : '--scope SCOPE';
}
