package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.common.utils.LogContext;

/**
 * Kafka's controller deciding on a given state. In: "record,record,… verb argument…" with records and requests in hex;
 * out: "response record,record,…" with "-" for nothing, or "error code".
 */
public class Decisions {
    static final HexFormat HEX = HexFormat.of();

    final SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
    final FeatureControlManager features = new FeatureControlManager.Builder().
        setSnapshotRegistry(snapshots).
        setQuorumFeatures(new QuorumFeatures(1, QuorumFeatures.defaultSupportedFeatureMap(false), List.of(1))).
        build();
    final ConfigurationControlManager configs = new ConfigurationControlManager.Builder().
        setSnapshotRegistry(snapshots).
        setFeatureControl(features).
        setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema()).
        setStaticConfig(Map.of()).
        setNodeId(1).
        build();
    final ClusterControlManager cluster = new ClusterControlManager.Builder().
        setSnapshotRegistry(snapshots).
        setFeatureControlManager(features).
        setBrokerShutdownHandler((broker, clean, records) -> { }).
        build();
    final ReplicationControlManager replication = new ReplicationControlManager.Builder().
        setSnapshotRegistry(snapshots).
        setConfigurationControl(configs).
        setClusterControl(cluster).
        setFeatureControl(features).
        setMaxElectionsPerImbalance(1000).
        build();

    void replay(ApiMessage record) {
        if (record instanceof FeatureLevelRecord r) features.replay(r);
        else if (record instanceof RegisterBrokerRecord r) cluster.replay(r, 0);
        else if (record instanceof BrokerRegistrationChangeRecord r) cluster.replay(r);
        else if (record instanceof ConfigRecord r) configs.replay(r);
        else if (record instanceof TopicRecord r) replication.replay(r);
        else if (record instanceof PartitionRecord r) replication.replay(r);
        else if (record instanceof PartitionChangeRecord r) replication.replay(r);
        else if (record instanceof ClearElrRecord r) replication.replay(r);
        else throw new IllegalArgumentException(record.toString());
    }

    String decide(String[] w) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        ApiMessage response = null;
        short version = 0;
        switch (w[1]) {
            case "alter" -> {
                version = Short.parseShort(w[2]);
                ControllerRequestContext context = new ControllerRequestContext(
                    new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
                var result = replication.alterPartition(context, new AlterPartitionRequestData(bytes(w[3]), version));
                records = result.records();
                response = result.response();
            }
            case "elect" -> {
                version = 2;
                var result = replication.electLeaders(new ElectLeadersRequestData(bytes(w[2]), version));
                records = result.records();
                response = result.response();
            }
            case "assign" -> {
                var result = replication.handleAssignReplicasToDirs(new AssignReplicasToDirsRequestData(bytes(w[2]), version));
                records = result.records();
                response = result.response();
            }
            case "reassign" -> {
                version = 1;
                var result = replication.alterPartitionReassignments(
                    new AlterPartitionReassignmentsRequestData(bytes(w[2]), version));
                records = result.records();
                response = result.response();
            }
            case "moves" -> response = replication.listPartitionReassignments(
                new ListPartitionReassignmentsRequestData(bytes(w[2]), version).topics(), Long.MAX_VALUE);
            case "rebalance" -> records = replication.maybeBalancePartitionLeaders().records();
            case "unclean" -> records = replication.maybeElectUncleanLeaders().records();
            case "fence" -> replication.handleBrokerFenced(Integer.parseInt(w[2]), records);
            case "unfence" -> replication.handleBrokerUnfenced(Integer.parseInt(w[2]), Long.parseLong(w[3]), records);
            case "return" ->
                replication.handleBrokerShutdown(Integer.parseInt(w[2]), Boolean.parseBoolean(w[3]), records);
            default -> throw new IllegalArgumentException(w[1]);
        }
        String written = response == null ? "-" : HEX.formatHex(MessageUtil.toByteBufferAccessor(response, version).buffer().array());
        return written + " " + (records.isEmpty() ? "-" : String.join(",", records.stream().map(Decisions::hex).toList()));
    }

    static ByteBufferAccessor bytes(String hex) {
        return new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(hex)));
    }

    static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = MetadataRecordSerde.INSTANCE.recordSize(record, cache);
        ByteBufferAccessor out = new ByteBufferAccessor(ByteBuffer.allocate(size));
        MetadataRecordSerde.INSTANCE.write(record, cache, out);
        return HEX.formatHex(out.buffer().array());
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            Decisions state = new Decisions();
            for (String record : words[0].split(",")) {
                byte[] value = HEX.parseHex(record);
                state.replay(MetadataRecordSerde.INSTANCE.read(bytes(record), value.length).message());
            }
            try {
                System.out.println(state.decide(words));
            } catch (ApiException e) {
                System.out.println("error " + Errors.forException(e).code());
            }
        }
    }
}
