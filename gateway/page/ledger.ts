/** The page on which the gateway checks the ledger of a run, and says what that shows and what it does not. */
import type { LedgerFault } from '../../client/ledger/check.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { detailOf } from '../http/problem.ts';
import type { CheckedLedger } from '../projection/opened.ts';
import { foreign } from './kit/faithful.ts';
import { facts, trouble } from './kit/layout.ts';
import { type Html, markup } from './kit/markup.ts';
import { clock } from './kit/times.ts';

const MOST_FAULTS = 50;

/** @param checked or why the ledger could not be read to its beginning */
export function ledgerView(runId: string, checked: CheckedLedger | CountersignError, now: number): Html {
  const path = `/runs/${encodeURIComponent(runId)}`;
  return markup`<div class="head">
      <p class="crumbs"><a href="/runs">Runs</a> / <a href="${path}">${foreign(runId)}</a></p>
      <h1>The ledger, checked</h1>
      <p class="state">At ${clock(new Date(now).toISOString())}</p>
    </div>
    ${checked instanceof CountersignError ? trouble('It could not be checked', `${detailOf(checked)} Nothing is proven of the entries before.`, checked.code) : reportView(checked)}
    ${beyondView(runId)}
    <p class="actions after">
      <a class="button" href="${path}/ledger">Check again</a><a class="button" href="${path}">Back to the run</a>
    </p>`;
}

function reportView({ report, isHeadOfRun }: CheckedLedger): Html {
  const { faults, length, head, branches, ended } = report;
  const isSound = faults.length === 0 && isHeadOfRun;
  return markup`<section class="card" aria-labelledby="shown">
    <p class="banner ${isSound ? 'good' : 'error'}" role="status">
      ${isSound ? 'The chain is unbroken.' : 'This ledger is not what was recorded.'}
    </p>
    <h2 id="shown">What the check shows</h2>
    ${
      isSound
        ? markup`<ul>
            <li>
              ${length === 1 ? 'The one entry was' : `All ${length.toLocaleString('en')} entries were`} read, from the first on. Each has the hash of its content
              and names the one before it: none was changed, dropped, added between or moved.
            </li>
            <li>The last of them is the one that the run itself states as its head.</li>
          </ul>`
        : faultsView(faults, isHeadOfRun)
    }
    ${facts([
      ['Entries', length.toLocaleString('en')],
      ['Head', markup`<code class="digest">${head}</code>`],
      ['Branches', branches > 1 && `${branches}: the run was reset after something was recorded`],
      ['The run', ended ? 'has ended; nothing will follow' : 'goes on; entries will follow'],
    ])}
  </section>`;
}

function faultsView(faults: readonly LedgerFault[], isHeadOfRun: boolean): Html {
  return markup`<ul>
    ${faults.slice(0, MOST_FAULTS).map(({ kind, seq, reason }) => markup`<li><strong>Entry ${seq}</strong> ${foreign(reason)} <span class="note">${kind}</span></li>`)}
    ${faults.length > MOST_FAULTS && markup`<li>${faults.length - MOST_FAULTS} more faults</li>`}
    ${!isHeadOfRun && markup`<li>The entries do not lead to the head that the run itself states.</li>`}
  </ul>`;
}

function beyondView(runId: string): Html {
  return markup`<section class="card" aria-labelledby="beyond">
    <h2 id="beyond">What it does not show</h2>
    <ul>
      <li>
        Whoever may write to the namespace could write the whole chain anew. Heads that workers signed and that are kept
        elsewhere show that; this page does not read them.
      </li>
      <li>The entries are not compared with Temporal's history, nor with the conversation that they name.</li>
      <li>The signatures of people, in trust mode <code>signed</code>, are not verified here.</li>
    </ul>
    <p>All of that is what <code>countersign verify-ledger ${foreign(runId)}</code> does, also from a copy.</p>
  </section>`;
}
