/**
 * Implements `countersign verify-ledger`, which checks whether the ledger of a run or catalog is complete and
 * unchanged.
 *
 * 1. The exit code is 7 if it is not. The report on standard output names each entry that is wrong, with the reason.
 * 2. If a copy is named, Temporal is asked only with --live.
 */
import { checkLedger, copyFaults, type LedgerFault } from '../../client/ledger/check.ts';
import type { LedgerCopy } from '../../client/ledger/files.ts';
import { checkHead, type HeadKeys, readHeadKeys } from '../../client/ledger/heads.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { checkNamedKeys, checkProofs, namedSignatures, type ProofReport } from '../../client/ledger/proofs.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import type { TrustedJwk } from '../../contracts/schemas/trust.ts';
import { visible } from '../../domain/text/escape.ts';
import { GENESIS } from '../../domain/run/journal.ts';
import { doubledIn } from '../../domain/signing/jws.ts';
import { type BrokenBy, brokenBy, isRecordInDoubt } from '../session/broken-ledger.ts';
import * as option from '../session/options.ts';
import { readTrustFile, textOf } from '../session/files.ts';
import { ledgerOwner, namedCopy } from '../session/ledger-sources.ts';
import { configuredKeys, type Session } from '../session/session.ts';
import { ledgerOfStuck, toldOrRead } from '../session/stuck-run.ts';
import type { Paint, Terminal } from '../session/terminal.ts';
import { type Answer, type Given, verb } from '../session/verb.ts';
import { stuckJson, stuckText } from '../views/recovery.ts';
import { count } from '../views/format.ts';

/** False with --no-trust. */
const TRUST: option.OptionRow<string | false | undefined> = option.text(
  '<file>',
  'trusted keys (trust.jwks): the start and every decision must be signed with one of them that may say so (default: those of the configuration)',
);

const OPTIONS = {
  file: option.text('<file>', 'check what `countersign ledger` exported, as JSON or JSONL, without a server'),
  records: option.text('<directory>', 'check what ledger.directory holds of the run, without a server'),
  firstRun: option.text('<id>', 'with --records: which run of this id, by its first Temporal run id'),
  segment: option.parsed(
    option.hex(64, 'It must be the whole sha256 of an artifact: 64 hexadecimal characters.'),
    '<sha256>',
    'check the artifact store, from the newest segment back, without a server',
  ),
  keys: option.text('<file>', 'public keys of the workers (JWK set, JWK, PEM): a signed head must cover every entry'),
  trust: TRUST,
  noTrust: option.flag('check no signatures of people and services'),
  live: option.flag('compare a named copy with the run itself, and with history'),
  history: option.off("do not compare with Temporal's history"),
  head: option.digest('a head that was noted earlier or elsewhere; it must be the hash of an entry of this ledger'),
} satisfies option.OptionRows;

type VerifyOptions = option.Values<typeof OPTIONS> & option.GlobalOptions;

export const VERIFY_LEDGER = verb({
  name: 'verify-ledger',
  summary: 'check that the ledger of a run is complete and unchanged',
  description:
    "Check a run's ledger: every entry follows the one before it, none was changed, dropped or swapped, signed heads hold, and Temporal's history says the same",
  args: { run: option.one('run id, or catalog/<tenant>/<server>') },
  options: OPTIONS,
  examples: [
    'verify-ledger nightly-42',
    'verify-ledger nightly-42 --records /srv/ledger --keys worker.jwks.json',
    'verify-ledger nightly-42 --trust trust.jwks',
    'verify-ledger nightly-42 --file nightly-42.jsonl --head 5c1d9be0a4f2437e8b6c2d17f09a3e55',
  ],
  run: async ({ args: { run: runId }, options, terminal, session }) => {
    // A run's own answer contains no signed heads.
    if (options.keys !== undefined && !namesCopy(options)) {
      const message =
        'A run shows no signed heads, so --keys would check nothing. Name where they are kept: --records DIRECTORY (ledger.directory), or --file FILE.';
      throw option.usage(message);
    }
    const trusted = await trustedOf(runId, options, terminal);
    const keys =
      options.keys === undefined
        ? undefined
        : await readHeadKeys(await textOf(options.keys, `key file ${options.keys}`, terminal));
    const named = await namedCopy(runId, options, terminal);
    const copy = named && (await checkCopy(named, keys, trusted));
    const live =
      copy === undefined || options.live === true
        ? await session(async (opened) => checkLive(opened, runId, options.history, trusted))
        : undefined;
    const { verified, own } = combined(runId, { copy, live, trusted }, options.head);
    const because = options.history ? await whyBroken(runId, own, { copy, live }, session) : undefined;
    return reportOf({ ...verified, ...defined({ because }) });
  },
});

function namesCopy({ file, records, segment }: VerifyOptions): boolean {
  return [file, records, segment].some((source) => source !== undefined);
}

async function whyBroken(
  runId: string,
  faults: readonly LedgerFault[],
  { copy, live }: Pick<Sources, 'copy' | 'live'>,
  session: Given<object, object>['session'],
): Promise<BrokenBy | undefined> {
  if (copy === undefined || live === undefined || live.stuck !== undefined) return undefined;
  const compared = { copy: copy.entries, run: live.entries };
  if (!isRecordInDoubt(faults, compared)) return undefined;
  return await session(async (opened) => brokenBy(opened, runId, compared)).catch(() => undefined);
}

async function trustedOf(
  runId: string,
  options: VerifyOptions,
  terminal: Terminal,
): Promise<readonly TrustedJwk[] | undefined> {
  const { trust, history, live } = options;
  const isCatalog = runId.startsWith('catalog/');
  if (trust === undefined && history && !isCatalog)
    return await configuredKeys(options.config, terminal, !namesCopy(options) || live === true);
  if (trust === undefined || trust === false) return undefined;
  if (isCatalog) {
    const message =
      'The signatures of a catalog are verified when it is changed, and not from its ledger. Leave out --trust.';
    throw option.usage(message);
  }
  if (!history) throw option.usage("What was signed stands in Temporal's history. Leave out --no-history, or --trust.");
  const keys = await readTrustFile(terminal, trust);
  const path = doubledIn(keys);
  if (path === undefined) return keys;
  throw new CountersignError('CONFIG_INVALID', `In ${trust}, ${path} stands there twice; one key is one voice.`, {
    path,
  });
}

function proofsOf(entries: readonly AnyEntry[], proofs: ProofReport | undefined): ProofReport {
  return proofs ?? { faults: [], checked: 0, unchecked: namedSignatures(entries) };
}

async function checkCopy(copy: LedgerCopy, keys: HeadKeys | undefined, trusted: readonly TrustedJwk[] | undefined) {
  const checks = await Promise.all(copy.signedHeads.map(async (signed) => checkHead(signed, copy.place, keys)));
  const heads = checks.flatMap((check) => (check.kind === 'head' ? [check.head] : []));
  const foreign = checks.flatMap((check) => (check.kind === 'foreign' ? [check.fault] : []));
  const checked = checkLedger(copy.entries, heads, keys !== undefined);
  const proofs = proofsOf(copy.entries, trusted && checkNamedKeys(copy.entries, trusted));
  return { ...copy, heads, proofs, report: { ...checked, faults: [...copy.faults, ...foreign, ...checked.faults] } };
}

/** Checks the run's own ledger; by count and head too, since a ledger without its end is still a valid chain. */
async function checkLive(
  session: Session,
  runId: string,
  history: boolean,
  trusted: readonly TrustedJwk[] | undefined,
) {
  const { client, deadlineMs } = session;
  const own = ledgerOwner(session.countersign, runId);
  // The head is read before the entries: the ledger may grow meanwhile, and never shrinks.
  const { told, stuck } = await toldOrRead(session, runId, async () => await own.head());
  const read = async () => await (stuck === undefined ? own.ledger() : ledgerOfStuck(session, stuck));
  const { state, snapshot } = stuck?.answers ?? {};
  const { ledgerHead, ledgerLength } = told ?? state ?? snapshot ?? { ledgerLength: 0, ledgerHead: GENESIS };
  const entries = await read();
  const report = checkLedger(entries);
  const faults: LedgerFault[] = [...report.faults];
  if (entries.length < ledgerLength)
    faults.push({ kind: 'truncated', seq: entries.length, reason: `is cut off: ${ledgerLength} entries were written` });
  else if (ledgerLength > 0 && entries[ledgerLength - 1]?.hash !== ledgerHead)
    faults.push({ kind: 'rewritten', seq: ledgerLength - 1, reason: 'is not the one that the run itself ends with' });
  const isCompared = history && !runId.startsWith('catalog/');
  const deeds = isCompared ? await readDeeds(client, runId, stuck && stuck.upTo + 1, deadlineMs) : undefined;
  if (deeds !== undefined) faults.push(...compareWithHistory({ before: entries, after: await read() }, deeds));
  const { namespace } = client.options;
  const proven = deeds && trusted && checkProofs(entries, { namespace, workflowId: runId, trusted, deeds });
  return {
    entries,
    report: { ...report, faults },
    proofs: proofsOf(entries, proven),
    /** `stored`: number of entries that every record of the run has. */
    ...defined({ stuck, historyFrom: deeds?.from, stored: deeds?.stored }),
  };
}

interface Sources {
  readonly copy: Awaited<ReturnType<typeof checkCopy>> | undefined;
  readonly live: Awaited<ReturnType<typeof checkLive>> | undefined;
  readonly trusted: readonly TrustedJwk[] | undefined;
}

/** @returns as `own` the faults of the ledger itself, without `--head`: the noted head may belong to another run */
function combined(runId: string, { copy, live, trusted }: Sources, head: string | undefined) {
  const read = copy ?? live;
  if (read === undefined) throw new CountersignError('INTERNAL', 'Nothing was read.');
  const { entries, report } = read;
  // The run's own entries were verified with history; a copy may have further entries.
  const proofs =
    live === undefined ? read.proofs : together(live.proofs, proofsBeside(live.entries, copy?.entries ?? [], trusted));
  const own = [...report.faults, ...proofs.faults];
  if (copy !== undefined && live !== undefined) {
    const { stored, report: of } = live;
    // A file or a segment may be an older copy; a record has all that its run has handed over.
    const most = { ended: of.ended, ...(copy.isRecord === true && defined({ stored })) };
    own.push(...of.faults, ...copyFaults(copy.entries, live.entries, most));
  }
  const faults = [...own];
  if (head !== undefined && !entries.some(({ hash }) => hash.startsWith(head)))
    faults.push({ kind: 'missing', seq: report.length, reason: `is not there: none has the hash ${head}` });
  const { checked, unchecked } = proofs;
  // A namespace writer could forge a whole valid chain; only signatures rule that out.
  const isProven = trusted !== undefined && checked > 0 && unchecked === 0;
  /** `chained`: no fault was found, but not all signatures were checked. */
  const verdict: 'intact' | 'chained' | 'broken' = faults.length > 0 ? 'broken' : isProven ? 'intact' : 'chained';
  const verified = {
    runId,
    verdict,
    ...report,
    faults,
    heads: (copy?.heads ?? []).map(({ kid, from, to, verified: isHeld }) => ({ kid, from, to, verified: isHeld })),
    /** Signatures of people and services on decisions and on the start. */
    signatures: { checked, unchecked },
    /** `historyFrom`: number of the first entry that was compared with history. */
    ...defined({ historyFrom: live?.historyFrom, stuck: live?.stuck }),
  };
  return { verified, own };
}

/** Checks entries that only the copy has: from a branch that a reset abandoned, or added by somebody. */
function proofsBeside(
  entries: readonly AnyEntry[],
  copy: readonly AnyEntry[],
  trusted: readonly TrustedJwk[] | undefined,
): ProofReport {
  const known = new Set(entries.map(({ hash }) => hash));
  const own = copy.filter(({ hash }) => !known.has(hash));
  return proofsOf(own, trusted && checkNamedKeys(own, trusted, copy));
}

function together(left: ProofReport, right: ProofReport): ProofReport {
  return {
    faults: [...left.faults, ...right.faults],
    checked: left.checked + right.checked,
    unchecked: left.unchecked + right.unchecked,
  };
}

type Verified = ReturnType<typeof combined>['verified'] & { readonly because?: BrokenBy };

function reportOf(verified: Verified): Answer {
  const { stuck, ...rest } = verified;
  const { runId, faults, because } = rest;
  const json = { ...rest, ...(stuck && { stuck: stuckJson(stuck) }) };
  const shown = (paint: Paint): string => verifiedText(verified, paint);
  const [first] = faults;
  if (first === undefined) return { json, text: shown };
  const { seq, kind, reason } = first;
  const more = faults.length === 1 ? '' : ` There are ${faults.length - 1} more.`;
  const message = `Entry ${seq} of the ledger of ${runId} ${reason}.${more}`;
  const facts = { runId, seq, kind, ...defined({ cause: because?.cause }) };
  return { json, text: shown, fault: new CountersignError('LEDGER_BROKEN', message, facts) };
}

function verifiedText(verified: Verified, paint: Paint): string {
  const { runId, verdict, faults, length, head, branches, signedTo, ended, heads, signatures } = verified;
  const { historyFrom, stuck, because } = verified;
  const signed = heads.length === 0 ? '' : `, ${signedTo} under ${count(heads.length, 'signed head')}`;
  const proven =
    signatures.checked === 0 ? '' : `, ${count(signatures.checked, 'signature')} of decisions and start checked`;
  const more = `${branches > 1 ? `, ${branches} branches (the workflow was reset)` : ''}${ended ? ', ended' : ''}`;
  const unlooked = signatures.checked === 0 ? 'signatures not checked' : 'not all signatures checked';
  const words = {
    intact: paint('green', 'intact'),
    chained: `${paint('green', 'chained')}; ${paint('yellow', unlooked)}`,
    broken: paint('red', 'broken'),
  };
  const at = verdict === 'broken' ? '' : `, head ${head}`;
  return [
    `${words[verdict]}  ${visible(runId)}: ${length} entries${at}${signed}${proven}${more}`,
    ...faults.map(
      ({ kind, seq, reason }) => `  ${String(seq).padStart(5)}  ${kind.padEnd(18)}  entry ${seq} ${visible(reason)}`,
    ),
    ...uncheckedText(signatures, runId, historyFrom, paint),
    ...(because === undefined ? [] : [`  ${visible(because.text)}`]),
    ...(stuck === undefined ? [] : [stuckText(stuck, paint)]),
  ].join('\n');
}

/** Reports signatures that were not checked, so that they do not pass for good ones. */
function uncheckedText(
  { checked, unchecked }: Verified['signatures'],
  runId: string,
  historyFrom: number | undefined,
  paint: Paint,
): readonly string[] {
  if (unchecked === 0) return [];
  if (runId.startsWith('catalog/'))
    return [
      `  ${paint('yellow', `${count(unchecked, 'signature')} of changes not checked`)}: the catalog did so when it was changed`,
    ];
  const why =
    historyFrom === undefined
      ? "what was signed stands in Temporal's history, which was not asked"
      : checked === 0
        ? 'name the trusted keys with --trust, or in the configuration (trust.jwks)'
        : 'Temporal has forgotten what was signed';
  const were = unchecked === 1 ? 'was' : 'were';
  return [
    `  ${paint('yellow', `${count(unchecked, 'signature')} of decisions and start ${were} not checked`)}: ${why}`,
  ];
}
