/** Describes what `verify-ledger` found, and which trust mode is in force. */
import type { CheckedHead, LedgerReport } from '../../client/ledger/check.ts';
import type { TrustConfig } from '../../contracts/schemas/trust.ts';
import { visible } from '../../domain/text/escape.ts';
import type { BrokenBy } from '../session/broken-ledger.ts';
import type { StuckRun } from '../session/stuck-run.ts';
import type { Paint } from '../session/terminal.ts';
import { count } from './format.ts';
import { stuckText } from './recovery.ts';

export interface Verified extends LedgerReport {
  readonly runId: string;
  /** `chained`: no fault was found, but not all signatures were checked. */
  readonly verdict: 'intact' | 'chained' | 'broken';
  readonly heads: readonly Pick<CheckedHead, 'kid' | 'from' | 'to' | 'verified'>[];
  /** Number of the first entry that was compared with history; absent if none was. */
  readonly historyFrom?: number;
  /** Signatures of people and services on decisions and on the start. */
  readonly signatures: { readonly checked: number; readonly unchecked: number };
  readonly because?: BrokenBy;
  readonly stuck?: StuckRun;
}

export function verifiedText(verified: Verified, paint: Paint): string {
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

/** Every start prints the trust mode, since everything else rests on it. */
export function trustText(trust: TrustConfig, namespace: string): string {
  return trust.mode === 'temporal'
    ? `temporal. Whoever may write to namespace ${namespace} may start runs and decide, in anybody's name.`
    : `signed. Starts and decisions count where a key of ${trust.jwks} has signed them.`;
}
