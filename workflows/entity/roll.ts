/** Stores the journal of an execution, and finds the moment at which it may continue as new. */
import type { WorkflowDefinitionOptions } from '@temporalio/common';
import { allHandlersFinished, type ContinueAsNewOptions, sleep, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { answered } from './unread.ts';
import type { Entity } from './entity.ts';
import type { RunActivities } from '../../contracts/wire/activities.ts';
import { condition } from '../interceptors/condition.ts';
import { provenActivities } from '../interceptors/zone.ts';

/** Waits for all handlers, then for a new task: none is answered in the last one (temporalio/temporal#6375). */
export async function untilAnswered(): Promise<void> {
  await condition(allHandlersFinished);
  await sleep(1, { summary: 'before continue-as-new' });
}

/** Options for storing a segment. No run rolls or ends without the store: it waits, and is not lost (docs/adr/0015). */
export function storeActivities() {
  return provenActivities<Pick<RunActivities, 'storeSegment'>>({
    // The activity reads what it stores page by page.
    startToCloseTimeout: '60s',
    retry: { initialInterval: '200ms', maximumInterval: '60s' },
    summary: 'store transcript and ledger',
  });
}

/** Stores one segment. `ledgerLength` says how far it holds the ledger: more entries may have come meanwhile. */
export async function storeOnce(
  live: Entity,
  { storeSegment } = storeActivities(),
): Promise<{ segment: ArtifactRef; ledgerLength: number }> {
  const { journal } = live;
  const { ledgerLength } = journal;
  const stored = await storeSegment({
    workflowId: workflowInfo().workflowId,
    ...defined({ previous: journal.segment }),
    transcript: { from: journal.transcriptFrom, to: journal.transcriptLength },
    ledger: { from: journal.ledgerFrom, to: ledgerLength },
  });
  return { segment: answered(live, 'storeSegment', stored), ledgerLength };
}

// To which build an execution belongs, where workers have versions (docs/adr/0083). Where they have none, nothing is
// said: workflows of such workers that said it did not end with Temporal 1.29.1.

/** The next execution begins on the build that new ones begin on, and stays with it. Older servers take no notice. */
export function onCurrentBuild(): Pick<ContinueAsNewOptions, 'initialVersioningBehavior'> {
  return isVersioned() ? { initialVersioningBehavior: 'AUTO_UPGRADE' } : {};
}

/** The execution belongs to no build: each of its tasks is done by the one that new executions begin on. */
export function ofNoBuild(): WorkflowDefinitionOptions {
  return isVersioned() ? { versioningBehavior: 'AUTO_UPGRADE' } : {};
}

/** A build id alone turns no versions on. */
function isVersioned(): boolean {
  const { deploymentName = '' } = workflowInfo().currentDeploymentVersion ?? {};
  return deploymentName !== '';
}
