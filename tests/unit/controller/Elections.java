import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Kafka's choice of leader and ISR. In, with commas in lists and "-" for an empty one:
 * "replicas isr elr lastKnownElr leader recovery live newIsr minIsr elrEnabled election uncleanShutdown";
 * out: the record in hex, or "-" for none.
 */
public class Elections {
    static int[] ids(String text) {
        if (text.equals("-")) return new int[0];
        return java.util.Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    static List<Integer> list(String text) {
        return IntStream.of(ids(text)).boxed().collect(Collectors.toList());
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] w = line.split(" ");
            int[] replicas = ids(w[0]);
            PartitionRegistration partition = new PartitionRegistration.Builder()
                .setReplicas(replicas)
                .setDirectories(DirectoryId.unassignedArray(replicas.length))
                .setIsr(ids(w[1]))
                .setElr(ids(w[2]))
                .setLastKnownElr(ids(w[3]))
                .setLeader(Integer.parseInt(w[4]))
                .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(w[5])))
                .setLeaderEpoch(5)
                .setPartitionEpoch(7)
                .build();
            Set<Integer> live = Set.copyOf(list(w[6]));
            PartitionChangeBuilder builder = new PartitionChangeBuilder(
                partition, new Uuid(1, 1), 0, live::contains, MetadataVersion.latestProduction(),
                Integer.parseInt(w[8]), w[9].equals("1"));
            builder.setTargetIsr(list(w[7]));
            builder.setElection(PartitionChangeBuilder.Election.valueOf(w[10]));
            if (!w[11].equals("-")) builder.setUncleanShutdownReplicas(list(w[11]));
            builder.setDefaultDirProvider(broker -> DirectoryId.UNASSIGNED);
            System.out.println(builder.build().map(Elections::hex).orElse("-"));
        }
    }

    static String hex(ApiMessageAndVersion record) {
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor out = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(serde.recordSize(record, cache)));
        serde.write(record, cache, out);
        return HexFormat.of().formatHex(out.buffer().array());
    }
}
