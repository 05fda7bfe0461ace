/**
 * Says to which build an execution belongs, where workers have versions (docs/adr/0083). Where they have none, nothing is
 * said: Temporal refuses tasks of such workers that tell how they go on.
 */
import type { WorkflowDefinitionOptions } from '@temporalio/common';
import { type ContinueAsNewOptions, workflowInfo } from '@temporalio/workflow';

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
