// Full compactions of tables without partitions and with one bucket, one after the other, on one thread:
//
//     TimedCompaction FOLDER TABLE...
//
// The last one is timed, by then Java is warm: {"cpu_s": …, "wall_s": …} of the whole process. Files are spilled to FOLDER.

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.List;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;

public class TimedCompaction {
    public static void main(String[] arguments) throws Exception {
        String folder = arguments[0];
        double cpu = 0;
        double wall = 0;
        for (int number = 1; number < arguments.length; number++) {
            FileStoreTable table =
                    FileStoreTableFactory.create(LocalFileIO.create(), new Path(arguments[number]))
                            .copy(Collections.singletonMap("write-only", "false"));
            System.gc();
            double cpuBefore = processCpu();
            long begun = System.nanoTime();
            compact(table, folder);
            wall = (System.nanoTime() - begun) / 1e9;
            cpu = processCpu() - cpuBefore;
        }
        System.out.println("{\"cpu_s\": " + cpu + ", \"wall_s\": " + wall + "}");
        System.exit(0);
    }

    private static void compact(FileStoreTable table, String folder) throws Exception {
        List<CommitMessage> messages;
        try (TableWriteImpl<?> write = table.newWrite("bench")) {
            write.withIOManager(IOManager.create(folder));
            write.compact(BinaryRow.EMPTY_ROW, 0, true);
            messages = write.prepareCommit(true, BatchWriteBuilder.COMMIT_IDENTIFIER);
        }
        try (TableCommitImpl commit = table.newCommit("bench")) {
            commit.commit(BatchWriteBuilder.COMMIT_IDENTIFIER, messages);
        }
    }

    private static double processCpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }
}
