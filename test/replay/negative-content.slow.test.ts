// Negative controls of what a run says, and of what it answers (INV-D1).
import { testControls } from './controls.ts';
import { OTHER_CONTENT, OTHER_REFUSALS } from './mutations.ts';

testControls({ content: OTHER_CONTENT, refusals: OTHER_REFUSALS });
